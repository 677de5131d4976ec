package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// D-02: interim responses pass, and an expectation reaches the app.
func TestPassing_interimResponses(t *testing.T) {
	t.Parallel()
	r, _ := one(t, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			io.WriteString(nc, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nConnection: x\r\nX: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	nc, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	for range 2 {
		for _, want := range []int{100, 102, 103, 200} {
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			if resp.StatusCode != want || resp.Header.Get("X") != "" || want == 103 && resp.Header.Get("Link") != "</a>" {
				t.Errorf("got %d %v, want %d", resp.StatusCode, resp.Header, want)
			}
		}
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	_, br = r.send(t, "GET / HTTP/1.0\r\n\r\n")
	if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
		t.Errorf("HTTP/1.0 client got %d", resp.StatusCode)
	}
}

func TestPassing_expectation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first  string // what the app says to the head
		status []int
	}{
		"granted": {"HTTP/1.1 100 Continue\r\n\r\n", []int{100, 200}},
		"refused": {"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig", []int{413}},
		"silent":  {"", []int{100, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := make(chan string, 1)
			r, a := one(t, func(nc net.Conn) {
				br := bufio.NewReader(nc)
				q, err := http.ReadRequest(br)
				if err != nil || !strings.EqualFold(q.Header.Get("Expect"), "100-continue") {
					return
				}
				io.WriteString(nc, tc.first)
				if name == "refused" {
					return
				}
				b, _ := io.ReadAll(q.Body)
				body <- string(b)
				io.WriteString(nc, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			})
			nc, br := r.send(t, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-Continue\r\n\r\n")
			for _, want := range tc.status {
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				if resp.StatusCode != want {
					t.Fatalf("got %d, want %d", resp.StatusCode, want)
				}
				if want == 100 {
					io.WriteString(nc, "hello")
				}
			}
			if name != "refused" && <-body != "hello" {
				t.Error("body changed")
			}
			if _, seen := a.conns(); seen != 1 {
				t.Errorf("%d tries", seen)
			}
			if f := r.idle(t).Failures; f != 0 {
				t.Errorf("%d failures", f)
			}
		})
	}
}

func TestPassing_answerBeforeTheUploadEnds(t *testing.T) {
	t.Parallel()
	reply := "HTTP/1.1 413 Content Too Large\r\nContent-Length: 50000\r\nConnection: close\r\n\r\n" + strings.Repeat("x", 50000)
	r, a := one(t, func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			io.WriteString(nc, reply)
			nc.(*net.TCPConn).CloseWrite()
			io.CopyN(io.Discard, nc, 1<<20)
		}
	})
	nc, br := r.send(t, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for piece := make([]byte, 64<<10); ; {
			if _, err := nc.Write(piece); err != nil {
				return
			}
		}
	}()
	resp, body := read(t, br, "PUT")
	if resp.StatusCode != 413 || len(body) != 50000 || !resp.Close {
		t.Errorf("%d, %d bytes, close %v", resp.StatusCode, len(body), resp.Close)
	}
	nc.Close()
	<-done
	if _, seen := a.conns(); seen != 1 {
		t.Errorf("%d tries", seen)
	}
	if f := r.idle(t).Failures; f != 0 {
		t.Errorf("%d failures", f)
	}
}

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
