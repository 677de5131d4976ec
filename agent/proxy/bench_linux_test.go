package proxy

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rondel-project/rondel/agent/member"
)

// BenchmarkProxy passes requests of clients that are bound already, over kept
// connections: the path that most requests take. Time and CPU time are those of
// clients and instances too.
func BenchmarkProxy(b *testing.B) {
	for name, c := range map[string]struct{ loops, instances, size int }{
		"loops":                 {0, 3, 1 << 10},
		"goroutines":            {-1, 3, 1 << 10},
		"loops, 100 instances":  {0, 100, 1 << 10},
		"loops, 64 KiB":         {0, 3, 64 << 10},
		"goroutines, 64 KiB":    {-1, 3, 64 << 10},
		"loops, no cookie":      {0, 3, -1 << 10},
		"goroutines, no cookie": {-1, 3, -1 << 10},
	} {
		b.Run(name, func(b *testing.B) { benchmarkProxy(b, c.loops, c.instances, max(c.size, -c.size), c.size > 0) })
	}
}

func benchmarkProxy(b *testing.B, loops, instances, size int, bound bool) {
	reply := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size)))
	var list []Instance
	for n := range instances {
		a := startApp(b, fmt.Sprintf("a%d", n), func(nc net.Conn) {
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
		list = append(list, instanceOf(a, member.ID("m"+fmt.Sprint(n))))
	}
	r := startRig(b, setup{loops: loops, apps: list})
	var requests [][]byte
	for range instances {
		cookie := ""
		if bound {
			resp, _ := r.request(b, "/", "")
			cookie, _, _ = strings.Cut(resp.Header.Get("Set-Cookie"), ";")
			cookie = "Cookie: " + cookie + "\r\n"
		}
		requests = append(requests, []byte("GET /index.html HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n"+cookie+"\r\n"))
	}
	b.ReportAllocs()
	b.SetParallelism(16)
	b.ResetTimer()
	before := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		nc, err := net.Dial("tcp", r.addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer nc.Close()
		buf := make([]byte, 128<<10)
		for n := 0; pb.Next(); n++ {
			if _, err := nc.Write(requests[n/16%len(requests)]); err != nil {
				b.Error(err)
				return
			}
			if err := readAnswer(nc, buf, size); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// readAnswer reads an answer whose body has a known size.
func readAnswer(nc net.Conn, buf []byte, size int) error {
	for n := 0; ; {
		m, err := nc.Read(buf[n:])
		if err != nil {
			return err
		}
		n += m
		if end := bytes.Index(buf[:min(n, 4<<10)], []byte("\r\n\r\n")); end >= 0 && n >= end+4+size {
			return nil
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
