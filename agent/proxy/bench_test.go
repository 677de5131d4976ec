package proxy

import (
	"io"
	"net"
	"strings"
	"testing"
)

// BenchmarkProxy passes small requests of clients that are bound already, over
// kept connections: the path that most requests take.
func BenchmarkProxy(b *testing.B) {
	reply := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello")
	a := startApp(b, "a1", func(nc net.Conn) {
		buf := make([]byte, 16<<10)
		for {
			if _, err := nc.Read(buf); err != nil {
				return
			}
			if _, err := nc.Write(reply); err != nil {
				return
			}
		}
	})
	r := startRig(b, setup{apps: []Instance{instanceOf(a, "m1")}})
	_, cookie, _ := r.get(b, "")
	request := []byte("GET /index.html HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\nCookie: " + cookie + "\r\n\r\n")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		nc, err := net.Dial("tcp", r.addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer nc.Close()
		buf := make([]byte, 16<<10)
		for pb.Next() {
			if _, err := nc.Write(request); err != nil {
				b.Error(err)
				return
			}
			n, err := io.ReadAtLeast(nc, buf, 40)
			if err != nil || !strings.HasSuffix(string(buf[:n]), "hello") {
				b.Errorf("%q %v", buf[:n], err)
				return
			}
		}
	})
}
