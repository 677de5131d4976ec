package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// D-05: a client that leaves ends its request and blames nobody.
func TestPassing_clientHangsUp(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, before string }{
		"waiting":   {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ""},
		"uploading": {"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc", ""},
		"streaming": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, ended := make(chan struct{}, 2), make(chan struct{}, 2)
			r, a := one(t, func(nc net.Conn) {
				buf := make([]byte, 4096)
				nc.Read(buf)
				io.WriteString(nc, tc.before)
				began <- struct{}{}
				for {
					if _, err := nc.Read(buf); err != nil {
						break
					}
				}
				ended <- struct{}{}
			})
			nc, br := r.send(t, tc.text)
			<-began
			if tc.before != "" {
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				b := make([]byte, 7)
				io.ReadFull(resp.Body, b)
				if string(b) != "data: 1" {
					t.Errorf("got %q", b)
				}
			}
			nc.Close()
			select {
			case <-ended:
			case <-time.After(2 * time.Second):
				t.Fatal("the app was not told")
			}
			if f := r.idle(t).Failures; f != 0 {
				t.Errorf("%d failures", f)
			}
			if _, seen := a.conns(); seen != 1 {
				t.Errorf("%d tries", seen)
			}
		})
	}
}

// A connection that its instance closed while it rested costs nobody a request.
func TestPassing_staleConnection(t *testing.T) {
	t.Parallel()
	r, a := one(t, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
	})
	for n := range 10 {
		resp, _ := r.request(t, "/", "")
		if resp.StatusCode != 200 {
			t.Fatalf("status %d", resp.StatusCode)
		}
		if f := r.Totals().Failures; f != 0 {
			t.Fatalf("%d failures after %d", f, n)
		}
	}
	if _, seen := a.conns(); seen < 5 {
		t.Errorf("%d connections", seen)
	}
}
