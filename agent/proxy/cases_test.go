package proxy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// message is what an instance saw of a request.
type message struct {
	line    string // method and target, as they came
	framing string // Content-Length and Transfer-Encoding
	n       int64
	sum     [32]byte
	id      string // Rondel-Request-Id
	session string // Rondel-Session
}

func (m message) of(body string) bool {
	return m.n == int64(len(body)) && m.sum == sha256.Sum256([]byte(body))
}

// digest is an app that reads requests whole, tells of each, and then answers
// with reply or, if that is empty, ends the connection.
func digest(got chan<- message, reply string) func(net.Conn) {
	return func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			m := message{
				line: q.Method + " " + q.RequestURI, framing: fmt.Sprint(q.Header["Content-Length"], q.TransferEncoding),
				id: q.Header.Get("Rondel-Request-Id"), session: q.Header.Get("Rondel-Session"),
			}
			h := sha256.New()
			if m.n, err = io.Copy(h, q.Body); err != nil {
				return
			}
			h.Sum(m.sum[:0])
			got <- m
			if reply == "" {
				return
			}
			if _, err := io.WriteString(nc, reply); err != nil {
				return
			}
		}
	}
}

// ok is a plain answer, and refusal one that says no.
const (
	ok      = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nfull\n"
)

// none fails if an app has seen anything.
func none(t testing.TB, got <-chan message) {
	t.Helper()
	select {
	case m := <-got:
		t.Errorf("an app saw %+v", m)
	default:
	}
}

// deaf is an instance whose address refuses connections.
func deaf(t testing.TB, id string) Instance {
	t.Helper()
	ln := listen(t)
	hold(t, ln)
	ln.Close()
	return Instance{Service: "shop", ID: id, Member: "m0", Addr: ln.Addr().String(), Weight: 100, Health: Passing}
}

// routed is a configuration whose one route was changed by f.
func routed(f func(*Route)) Config {
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg = unhurried(cfg)
	f(&cfg.Routes[0])
	return cfg
}

// put sends text in the background, since it may be refused half-way, and
// returns what reads the answers. The sender has ended when the test has.
func (r *rig) put(t testing.TB, text ...io.Reader) (net.Conn, *bufio.Reader) {
	t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(5 * time.Minute)) // it may be much
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.Copy(nc, io.MultiReader(text...))
	}()
	t.Cleanup(func() { nc.Close(); <-sent })
	return nc, bufio.NewReader(nc)
}

// endless is what bodies are made of; its length is no multiple of any buffer's.
var endless = bytes.Repeat([]byte("All work and no play makes for a long body. "), 1499)

// pattern is a body of n bytes that holds nothing in memory.
type pattern struct{ at, n int64 }

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.n {
		return 0, io.EOF
	}
	at := int(p.at % int64(len(endless)))
	n := copy(b[:min(int64(len(b)), p.n-p.at)], endless[at:])
	p.at += int64(n)
	return n, nil
}

// chunks gives a body the form of chunks of size bytes.
type chunks struct {
	from io.Reader
	size int
	out  bytes.Buffer
	done bool
}

func (c *chunks) Read(b []byte) (int, error) {
	if c.out.Len() == 0 {
		if c.done {
			return 0, io.EOF
		}
		piece := make([]byte, c.size)
		n, err := io.ReadFull(c.from, piece)
		if n > 0 {
			fmt.Fprintf(&c.out, "%x\r\n%s\r\n", n, piece[:n])
		}
		if err != nil {
			c.done = true
			c.out.WriteString("0\r\n\r\n")
		}
	}
	return c.out.Read(b)
}

// rawHead reads a response head as it came.
func rawHead(t testing.TB, br *bufio.Reader) string {
	t.Helper()
	var head strings.Builder
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", head.String(), err)
		}
		head.WriteString(line)
		if line == "\r\n" {
			return head.String()
		}
	}
}

// recorder is an app that reads strictly parsed requests and keeps what it saw.
type recorder struct {
	mu    sync.Mutex
	seen  []string // request line, then body
	hosts []string
	heads []string // as they came
}

func (rec *recorder) handle(nc net.Conn) {
	var raw bytes.Buffer
	r := bufio.NewReader(io.TeeReader(nc, &raw))
	for {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		b, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
		raw.Reset() // there is one request at a time on a connection
		rec.mu.Lock()
		rec.seen = append(rec.seen, q.Method+" "+q.RequestURI+" "+string(b))
		rec.hosts = append(rec.hosts, q.Host)
		rec.heads = append(rec.heads, head)
		rec.mu.Unlock()
		io.WriteString(nc, ok)
	}
}

func (rec *recorder) all() []string {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return append([]string(nil), rec.seen...)
}

// readsOne is an app that tells how the body of its request ended.
func readsOne(ended chan<- error) func(net.Conn) {
	return func(nc net.Conn) {
		q, err := http.ReadRequest(bufio.NewReader(nc))
		if err != nil {
			return
		}
		_, err = io.ReadAll(q.Body)
		ended <- err
	}
}
