package load

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// settings are the same for every peer: TLS 1.3, X25519, no session is resumed.
// Go's servers would take a key exchange that OpenSSL 3.0 does not have.
func tlsSettings() *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // the certificate is the bench's own
		ServerName:         "shop.example.com", MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{tls.X25519}, NextProtos: []string{"http/1.1"},
	}
}

// runTLS is one thread's share of a load over TLS, a goroutine for each connection.
func runTLS(p *Plan, thread int) (*Tally, error) {
	from, to := p.share(thread)
	tallies := make([]Tally, to-from)
	began := time.Now()
	end := began.Add(p.For)
	var all sync.WaitGroup
	for n := from; n < to; n++ {
		t := &tallies[n-from]
		all.Go(func() {
			r := newRequests(p, n)
			if len(p.Clients) > 0 {
				r.next = n % len(p.Clients)
			}
			c := tlsConn{requests: r, n: n, addr: p.Addr, settings: tlsSettings(), buf: make([]byte, 32<<10)}
			defer c.close()
			for at, first := time.Now(), true; first || at.Before(end) && t.Failed() < tooMany/p.Conns+1; at, first = time.Now(), false {
				if err := c.exchange(p.Close, end.Add(silence)); err != nil {
					c.close()
					t.fail(err.Error(), 1)
					continue
				}
				t.Requests++
				t.Latencies.Record(time.Since(at))
			}
		})
	}
	all.Wait()
	sum := &Tally{Took: time.Since(began)}
	for i := range tallies {
		sum.Add(&tallies[i])
	}
	return sum, nil
}

type tlsConn struct {
	*requests
	n        int
	addr     string
	settings *tls.Config
	conn     *tls.Conn
	out, buf []byte
}

func (c *tlsConn) close() {
	if c.conn != nil {
		c.conn.NetConn().Close()
		c.conn = nil
	}
}

// exchange sends one request and reads its answer, over a new connection if there is
// none.
func (c *tlsConn) exchange(once bool, deadline time.Time) error {
	if c.conn == nil {
		nc, err := net.Dial("tcp", c.addr)
		if err != nil {
			return errConnect
		}
		c.conn = tls.Client(nc, c.settings)
		if err := nc.SetDeadline(deadline); err != nil {
			return errConnect
		}
		if err := c.conn.Handshake(); err != nil {
			return errHandshake
		}
	}
	var want string
	c.out, want = c.appendTo(c.out[:0], c.n)
	if _, err := c.conn.Write(c.out); err != nil {
		return errBroken
	}
	got := 0
	var h head
	for {
		n, err := c.conn.Read(c.buf[got:])
		if got += n; n == 0 && err != nil {
			return errBroken
		}
		h, err = parseHead(c.buf[:got])
		if err == nil && got-h.size >= min(h.length, len(want)) {
			break
		}
		if err != nil && !errors.Is(err, errNotYet) {
			return err
		}
		if got == len(c.buf) {
			return errLarge
		}
	}
	if !begins(c.buf[h.size:got], want) {
		return errInstance
	}
	for left := h.size + h.length - got; left != 0; {
		if left < 0 {
			return errMore
		}
		n, err := c.conn.Read(c.buf[:min(left, len(c.buf))])
		if left -= n; err != nil && left > 0 {
			return errBroken
		}
	}
	if once {
		if n, _ := c.conn.Read(c.buf); n > 0 { // the end, however it is said
			return errMore
		}
		c.close()
	}
	return nil
}
