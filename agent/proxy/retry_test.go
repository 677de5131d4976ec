package proxy

import (
	"bufio"
	"crypto/sha256"
	"fmt"
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

// D-06: what may be tried again, and with what body.
func TestPassing_retries(t *testing.T) {
	t.Parallel()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	gone := Instance{Service: "shop", ID: "a0", Member: "m0", Addr: dead.Addr().String(), Weight: 100, Health: Passing}
	small, large := strings.Repeat("x", 10), strings.Repeat("x", 3<<20)
	for name, tc := range map[string]struct {
		method, body string
		breaks       bool
		status       int
	}{
		"POST, refused":         {"POST", small, false, 200},
		"large POST, refused":   {"POST", large, false, 200},
		"GET, broken off":       {"GET", "", true, 200},
		"PUT, broken off":       {"PUT", small, true, 200},
		"POST, broken off":      {"POST", small, true, 502},
		"large PUT, broken off": {"PUT", large, true, 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sum := make(chan string, 8)
			good := startApp(t, "a1", func(nc net.Conn) {
				br := bufio.NewReader(nc)
				for {
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					h := sha256.New()
					n, err := io.Copy(h, q.Body)
					sum <- fmt.Sprintf("%d %d %x", q.ContentLength, n, h.Sum(nil))
					if err == nil {
						io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
				}
			})
			list := []Instance{gone, instanceOf(good, "m1")}
			if tc.breaks {
				bad := startApp(t, "a0", func(nc net.Conn) { // reads some of it, and breaks off
					io.CopyN(io.Discard, nc, int64(min(1+len(tc.body), 256<<10)))
				})
				list[0] = instanceOf(bad, "m0")
			}
			r := startRig(t, setup{apps: list})
			nc, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(10 * time.Second))
			length := ""
			if tc.method != "GET" {
				length = fmt.Sprintf("Content-Length: %d\r\n", len(tc.body))
			}
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				io.WriteString(nc, tc.method+" / HTTP/1.1\r\nHost: x\r\n"+length+"\r\n"+tc.body)
			}()
			resp, _ := read(t, bufio.NewReader(nc), tc.method)
			if resp.StatusCode != tc.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tc.status)
			}
			nc.Close()
			<-sent
			if tc.status != 200 {
				if len(sum) > 0 {
					t.Errorf("the other app got %s", <-sum)
				}
				return
			}
			if n := len(resp.Header.Values("Set-Cookie")); n != 1 {
				t.Errorf("%d cookies", n)
			}
			want := fmt.Sprintf("%d %d %x", len(tc.body), len(tc.body), sha256.Sum256([]byte(tc.body)))
			if got := <-sum; got != want {
				t.Errorf("got %s, want %s", got, want)
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
