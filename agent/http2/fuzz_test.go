package http2

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/rondel-project/rondel/agent/http1"
)

// Whatever a client sends, nothing hangs or breaks but its own connection, and
// every request that comes of it can be read as HTTP/1.1 in one way.
func FuzzServer(f *testing.F) {
	seed := func(do func(p *peer)) {
		var all bytes.Buffer
		p := &peer{t: f, fr: http2.NewFramer(&all, nil)}
		p.fr.AllowIllegalWrites = true
		p.he = hpack.NewEncoder(&p.hb)
		do(p)
		f.Add(all.Bytes())
	}
	seed(func(p *peer) {
		p.fr.WriteSettings()
		p.headers(1, true, get("/a?b", "cookie", "c", "te", "trailers")...)
	})
	seed(func(p *peer) {
		p.headers(1, false, get("/", "content-length", "3")...)
		p.fr.WriteDataPadded(1, true, []byte("abc"), make([]byte, 3))
		p.fr.WriteRSTStream(1, 8)
		p.fr.WriteWindowUpdate(0, 5)
	})
	seed(func(p *peer) {
		p.headers(1, false, get("/")...)
		p.fr.WriteData(1, false, []byte("abc"))
		p.headers(1, true, "x", "y")
		p.fr.WriteGoAway(0, 0, nil)
	})
	seed(func(p *peer) {
		p.headers(1, false, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/", ":authority", "x")
		p.fr.WriteData(1, true, []byte("abc"))
	})
	f.Fuzz(func(t *testing.T, in []byte) {
		near, far := net.Pipe()
		var all sync.WaitGroup
		s := NewServer(near, ServerOptions{
			Head: 4 << 10, Streams: 5, Header: time.Minute, Idle: time.Minute, Write: time.Minute,
			Serve: func(nc net.Conn) {
				all.Go(func() {
					defer nc.Close()
					c := http1.NewConn(nc, 512)
					var q http1.Request
					for {
						head, err := c.ReadHead(http1.Limits{Head: 8 << 10})
						if err != nil {
							return
						}
						if err := q.Parse(head); err != nil {
							io.WriteString(nc, "HTTP/1.1 400 \r\nContent-Length: 0\r\n\r\n")
							return
						}
						var body http1.Body
						for body.Begin(q.Framing, q.Length, false, nil); !body.Done(); {
							if _, _, err := body.Next(c, nil); err != nil {
								return
							}
						}
						if c.Buffered() > 0 && q.Protocol == nil {
							t.Errorf("%q is left of a request", c.Peek())
						}
						if _, err := io.WriteString(nc, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX: y\r\n\r\n"); err != nil || q.Protocol != nil {
							return
						}
					}
				})
			},
		})
		all.Go(func() { s.Run() })
		all.Go(func() { io.Copy(io.Discard, far) })
		io.WriteString(far, http2.ClientPreface)
		far.Write(in)
		far.Close()
		all.Wait()
	})
}

// What is written in pieces comes out as it would in one.
func FuzzDechunker(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"), 1)
	f.Add([]byte("1;x=y\r\na\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n"), 7)
	f.Add([]byte("ffffffffffffffff\r\n"), 3)
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		read := func(piece int) (out, section []byte, ended bool, failed bool) {
			var d dechunker
			for rest := in; len(rest) > 0; {
				now := rest[:min(piece, len(rest))]
				for len(now) > 0 {
					data, n, done, err := d.next(now)
					if out = append(out, data...); err != nil || done {
						return out, d.section, done, err != nil
					}
					if n == 0 {
						t.Fatal("no progress")
					}
					now, rest = now[n:], rest[n:]
				}
			}
			return out, nil, false, false
		}
		a, as, aEnd, aBad := read(len(in) + 1)
		b, bs, bEnd, bBad := read(max(1, piece%64))
		if !bytes.Equal(a, b) || !bytes.Equal(as, bs) || aEnd != bEnd || aBad != bBad {
			t.Errorf("%q %q %v %v, in pieces %q %q %v %v", a, as, aEnd, aBad, b, bs, bEnd, bBad)
		}
	})
}
