package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a client waits for an answer.
const patience = 10 * time.Second

// client is one sticky client: its cookies, and its kept connections. It repeats
// nothing, unlike net/http's.
type client struct {
	addr string

	mu           sync.Mutex
	cookies      map[string]string
	idle         []*line
	acknowledged int // POSTs
}

type line struct {
	net.Conn
	in *bufio.Reader
}

// do sends one request. Its answer tells instance and counter; why it failed is in
// words that are the same for failures of one kind.
func (c *client) do(ctx context.Context, key string) (name string, counter int, why string) {
	l, err := c.line(ctx)
	if err != nil {
		return "", 0, "no connection to the proxy"
	}
	name, counter, keep, err := c.exchange(l, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && key != "" {
		c.acknowledged++
	}
	if err == nil && keep {
		c.idle = append(c.idle, l)
	} else {
		l.Close()
	}
	return name, counter, words(err)
}

func (c *client) line(ctx context.Context) (*line, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		l := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return l, nil
	}
	c.mu.Unlock()
	d := net.Dialer{Timeout: patience}
	nc, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return nil, err
	}
	return &line{nc, bufio.NewReader(nc)}, nil
}

func (c *client) exchange(l *line, key string) (name string, counter int, keep bool, err error) {
	if err := l.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", 0, false, err
	}
	if _, err := io.WriteString(l, c.request(key)); err != nil {
		return "", 0, false, err
	}
	r, err := http.ReadResponse(l.in, nil)
	if err != nil {
		return "", 0, false, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", 0, false, err
	}
	c.mu.Lock()
	for _, k := range r.Cookies() {
		c.cookies[k.Name] = k.Value
	}
	c.mu.Unlock()
	if r.StatusCode != http.StatusOK {
		return "", 0, false, statusError(r.StatusCode)
	}
	name, text, _ := strings.Cut(strings.TrimSpace(string(body)), " ")
	counter, err = strconv.Atoi(text)
	return name, counter, !r.Close, err
}

func (c *client) request(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pairs []string
	for name, value := range c.cookies {
		pairs = append(pairs, name+"="+value)
	}
	slices.Sort(pairs)
	more := ""
	if len(pairs) > 0 {
		more = "Cookie: " + strings.Join(pairs, "; ") + "\r\n"
	}
	if key == "" {
		return "GET /cart HTTP/1.1\r\nHost: shop.example.com\r\n" + more + "\r\n"
	}
	const body = "item=book"
	return fmt.Sprintf("POST /cart HTTP/1.1\r\nHost: shop.example.com\r\n%sKey: %s\r\nContent-Length: %d\r\n\r\n%s", more, key, len(body), body)
}

func (c *client) floor() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acknowledged
}

func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.idle {
		l.Close()
	}
	c.idle = nil
}

type statusError int

func (s statusError) Error() string { return "status " + strconv.Itoa(int(s)) }

// words name the kind of a failure.
func words(err error) string {
	var status statusError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &status):
		return status.Error()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("no answer in %v", patience)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection closed"
	}
	return err.Error()
}

// keys counts the keys that instances write down, a line each.
type keys struct {
	mu   sync.Mutex
	part []byte
	runs map[string]int
}

// Write takes what an instance has written.
func (k *keys) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.part = append(k.part, b...)
	for {
		line, rest, ok := strings.Cut(string(k.part), "\n")
		if !ok {
			return len(b), nil
		}
		if k.runs == nil {
			k.runs = map[string]int{}
		}
		k.runs[line]++
		k.part = []byte(rest)
	}
}

// addTo adds what was counted to a sum.
func (k *keys) addTo(sum map[string]int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, n := range k.runs {
		sum[key] += n
	}
}
