package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

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
