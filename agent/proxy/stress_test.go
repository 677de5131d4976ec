package proxy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wild answers with what was asked in one of several framings, and now and
// then breaks off.
func wild(nc net.Conn) {
	br := bufio.NewReader(nc)
	for {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		b, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		body := fmt.Sprintf("%s %d|", q.URL.Path, len(b))
		body += strings.Repeat("x", rand.IntN(40000))
		switch n := rand.IntN(20); {
		case n == 0:
			return
		case n == 1:
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body)
			return
		case n < 5:
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\n\r\n%s", body)
			return
		case n < 10:
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		default:
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
	}
}

// Clients that leave, upload in pieces and pipeline, instances that break off
// and come and go: no client ever gets another's answer, and all counters
// return to zero.
func TestStress_noAnswerIsMixedUp(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n := range 3 {
		list = append(list, instanceOf(startApp(t, fmt.Sprint("a", n), wild), "m1"))
	}
	r := startRig(t, setup{apps: list})
	var good atomic.Int64
	var clients sync.WaitGroup
	for c := range 12 {
		clients.Go(func() {
			for n := range 40 {
				if err := r.wildClient(fmt.Sprintf("/%d/%d", c, n)); err != nil {
					t.Error(err)
				} else if good.Add(1)%7 == 0 {
					some := append([]Instance(nil), list...)
					some[rand.IntN(3)].Health = Health(rand.IntN(3))
					r.SetInstances(some[rand.IntN(2):])
				}
			}
		})
	}
	clients.Wait()
	if total := r.idle(t); total.Requests < 100 {
		t.Errorf("only %d requests", total.Requests)
	}
}

// wildClient sends one or two requests and checks what comes back, if
// anything does.
func (r *rig) wildClient(path string) error {
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	size := rand.IntN(100000)
	body := strings.Repeat("y", size)
	var parts []string
	switch rand.IntN(4) {
	case 0:
		size, parts = 0, []string{"GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"}
	case 1:
		parts = []string{fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, size), body[:size/2], body[size/2:]}
	case 2:
		parts = []string{fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", path)}
		if size > 0 {
			parts = append(parts, fmt.Sprintf("%x\r\n%s\r\n", size, body))
		}
		parts = append(parts, "0\r\n\r\n")
	case 3:
		parts = []string{fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, size, body)}
	}
	leaves := rand.IntN(8) == 0
	for i, p := range parts {
		if leaves && i == len(parts)-1 {
			io.WriteString(nc, p[:len(p)/2])
			return nil
		}
		if _, err := io.WriteString(nc, p); err != nil {
			break // refused early; the answer says why
		}
	}
	follow := rand.IntN(2) == 0
	if follow {
		io.WriteString(nc, "GET "+path+"/next HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	br := bufio.NewReader(nc)
	closed, err := check(br, fmt.Sprintf("%s %d|", path, size))
	if err != nil || closed || !follow {
		return err
	}
	_, err = check(br, path+"/next 0|")
	return err
}

func check(br *bufio.Reader, want string) (closed bool, err error) {
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return true, nil // cut off
	}
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return true, nil
	case resp.StatusCode == 502 || resp.StatusCode == 503:
		return resp.Close, nil
	case resp.StatusCode != 200 || !strings.HasPrefix(string(b), want) || strings.Trim(string(b[len(want):]), "x") != "":
		return true, fmt.Errorf("want %q, got %d %.80q", want, resp.StatusCode, b)
	}
	return resp.Close, nil
}
