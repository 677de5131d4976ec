package proxy

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/http2"
)

const (
	protocolHTTP2 = "h2" // as ALPN names it
	// prefaceHead is the part of HTTP/2's preface that looks like a request's
	// head to HTTP/1.1: its method is PRI, its target "*".
	prefaceHead = "PRI * HTTP/2.0\r\n\r\n"
)

// negotiated reports whether TLS has agreed on a protocol of this name.
func (c *conn) negotiated(protocol string) bool {
	t, ok := c.in.Conn.(*tls.Conn)
	return ok && t.ConnectionState().NegotiatedProtocol == protocol
}

// prefaced reports whether what could not be read as a request is the beginning
// of an HTTP/2 connection without TLS (RFC 9113, section 3.3), where that is wanted.
func (c *conn) prefaced(err error, cfg *Config) bool {
	return cfg.H2C && !c.peer.https && c.stream == nil && errors.Is(err, http1.ErrPreface)
}

// serveHTTP2 serves a connection that speaks HTTP/2, of which begun was read
// already. Each request comes to a conn of its own, as one over HTTP/1.1.
func (c *conn) serveHTTP2(begun string) {
	cfg := c.p.config()
	c.peer.protocol = "HTTP/2.0"
	nc := c.in.Conn
	if begun = begun + string(c.in.Peek()); begun != "" {
		nc = &resumed{Conn: nc, ahead: begun}
	}
	srv := http2.NewServer(nc, http2.ServerOptions{
		Head: cfg.Limits.RequestHead, Streams: cfg.Limits.Streams,
		Header: cfg.Timeouts.Header, Idle: cfg.Timeouts.Idle, Write: cfg.Timeouts.Body,
		Serve: func(stream net.Conn) { c.p.adopt(c.overHTTP2(stream)) },
		TooLarge: func(size int) {
			c.p.log.Info("request refused", "addr", c.peer.addr, "status", 431, "limit", cfg.Limits.RequestHead, "received", size, "error", http1.ErrHeadSize)
		},
	})
	c.mu.Lock()
	c.streams = srv
	c.mu.Unlock()
	if c.p.draining.Load() { // endIfIdle may have come a moment too early
		srv.Shutdown()
	}
	c.in.Resume()
	if err := srv.Run(); err != nil {
		c.p.log.Debug("HTTP/2 connection ended", "addr", c.peer.addr, "error", err)
	}
}

// overHTTP2 returns the conn for requests that come as streams of c. Who asks
// is who made the connection.
func (c *conn) overHTTP2(stream net.Conn) *conn {
	return &conn{p: c.p, in: http1.NewConn(stream, clientBuffer), peer: c.peer, memo: &memo{}, stream: c, idle: true}
}

// resumed is a connection whose first bytes were read already.
type resumed struct {
	net.Conn
	ahead string
}

// Read implements net.Conn.
func (r *resumed) Read(b []byte) (int, error) {
	if r.ahead != "" {
		n := copy(b, r.ahead)
		r.ahead = r.ahead[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}

// CloseWrite ends this side's half.
func (r *resumed) CloseWrite() error {
	if hc, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return hc.CloseWrite()
	}
	return r.Close()
}

// maxStreams bounds what may be offered to one client.
const maxStreams = 10_000

// validStreams reports whether as many requests may be under way on one connection.
func validStreams(n int) bool { return n >= 1 && n <= maxStreams }
