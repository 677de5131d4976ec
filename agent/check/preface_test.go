package check_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/check"
)

// Probes of the instance itself begin with what its connections begin with;
// those that go elsewhere do not.
func TestRunner_preface(t *testing.T) {
	t.Parallel()
	const preface = "PROXY UNKNOWN\r\n"
	for name, tc := range map[string]struct {
		spec check.Spec
		want string
	}{
		"HTTP":           {check.Spec{HTTP: "/health"}, preface + "GET /health HTTP/1.1\r\n"},
		"TCP":            {check.Spec{TCP: ":0"}, preface},
		"HTTP elsewhere": {check.Spec{HTTP: "http://localhost:0/health"}, "GET /health HTTP/1.1\r\n"},
		"TCP elsewhere":  {check.Spec{TCP: "localhost:0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan string, 100)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					nc, err := ln.Accept()
					if err != nil {
						return
					}
					br := bufio.NewReader(nc)
					b := make([]byte, len(tc.want))
					io.ReadFull(br, b)
					if tc.spec.HTTP == "" {
						rest, _ := io.ReadAll(br)
						b = append(b, rest...)
					} else {
						http.ReadRequest(br)
						io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
					got <- string(b)
					nc.Close()
				}
			}()
			t.Cleanup(func() { ln.Close(); <-done })
			_, port, _ := net.SplitHostPort(ln.Addr().String())
			spec := tc.spec
			spec.Preface, spec.Interval, spec.Timeout = preface, 2*time.Minute, time.Minute
			spec.HTTP = strings.Replace(spec.HTTP, ":0", ":"+port, 1)
			spec.TCP = strings.Replace(spec.TCP, ":0", ":"+port, 1)
			r, _ := start(t)
			r.Set("a", []check.Spec{normal(t, spec, ln.Addr().String())})
			select {
			case b := <-got:
				if b != tc.want {
					t.Errorf("begins with %q, want %q", b, tc.want)
				}
			case <-time.After(time.Minute):
				t.Fatal("no probe")
			}
		})
	}
}
