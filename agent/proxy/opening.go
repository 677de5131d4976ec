package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/proxyproto"
)

// Door is a listener whose clients speak TLS before their first request.
type Door struct {
	net.Listener
	TLS *tls.Config
}

// PeerHeader says which connections begin with a PROXY protocol header. Whether
// one is there is never guessed: who could choose could choose an address.
type PeerHeader uint8

// With PeerHeaderListed those of Config.PeerHeaderFrom begin with one, and all
// others are clients. With PeerHeaderRequired all others are turned away.
const (
	PeerHeaderOff PeerHeader = iota
	PeerHeaderListed
	PeerHeaderRequired
)

// protocolChallenge is what a certificate authority speaks that asks for proof
// by TLS-ALPN-01 (RFC 8737): the certificate was all it wanted.
const protocolChallenge = "acme-tls/1"

var (
	errNotListed = errors.New("its address is not among those that may send a PROXY protocol header")
	errTooMany   = errors.New("its client has as many connections as proxy.limits.connections_per_client allows")
	errUnneeded  = errors.New("nothing more was wanted than the certificate")
)

// open reads the PROXY protocol header and shakes hands, so that a connection
// where either is to be done needs a goroutine of its own until then. It blocks,
// for Timeouts.Handshake at most, and reports whether requests may follow.
func (c *conn) open(cfg *Config) bool {
	nc := c.in.Conn
	nc.SetDeadline(time.Now().Add(cfg.Timeouts.Handshake)) // fails on a closed connection, as the read will
	if c.p.draining.Load() {                               // looked at after the deadline, which undoes endIfIdle's
		return false
	}
	if err := c.readPeer(nc, cfg); err != nil {
		c.refusePeer(err)
		return false
	}
	if c.secure != nil {
		t := tls.Server(nc, c.secure)
		if err := shakeHands(t); err != nil {
			c.p.log.Debug("no TLS connection", "addr", c.peer.addr, "error", err)
			return false
		}
		nc, c.peer.https = t, true
	}
	nc.SetDeadline(time.Time{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in = http1.NewConn(nc, clientBuffer)
	return !c.dead
}

// readPeer learns from the header who the client is.
func (c *conn) readPeer(nc net.Conn, cfg *Config) error {
	if cfg.PeerHeader == PeerHeaderOff {
		return nil
	}
	if !c.peer.addr.IsValid() || !within(c.peer.addr.Addr(), cfg.PeerHeaderFrom) {
		if cfg.PeerHeader == PeerHeaderRequired {
			return errNotListed
		}
		return nil
	}
	h, err := proxyproto.Read(nc)
	if err != nil {
		return err
	}
	if h.Source.IsValid() {
		seat := c.peer.seat
		c.peer = peerAt(h.Source, h.Destination)
		c.peer.seat = seat
		if !c.p.gate.count(c.peer, cfg) {
			return errTooMany
		}
	}
	return nil
}

// refusePeer says why a connection ended before it began. A balancer that
// tries whether somebody listens is no news.
func (c *conn) refusePeer(err error) {
	switch {
	case errors.Is(err, proxyproto.ErrMalformed):
		c.p.log.Warn("connection refused, it should begin with a PROXY protocol header; let this balancer send one, or take it out of proxy_protocol_from",
			"addr", c.peer.addr, "error", err)
	case !errors.Is(err, io.EOF):
		c.p.log.Debug("connection refused", "addr", c.peer.addr, "error", err)
	}
}

// shakeHands makes a TLS connection. A client that speaks plain HTTP is told so.
func shakeHands(t *tls.Conn) error {
	err := t.Handshake()
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && text(plain.RecordHeader[:]) {
		const why = "this port speaks HTTPS\n"
		fmt.Fprintf(plain.Conn, "HTTP/1.0 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
			http.StatusBadRequest, http.StatusText(http.StatusBadRequest), len(why), why)
	}
	if err == nil && t.ConnectionState().NegotiatedProtocol == protocolChallenge {
		err = errUnneeded
	}
	return err
}

// text reports whether a request may begin with these bytes, as "GET /" does.
func text(b []byte) bool {
	for _, c := range b {
		if (c < 'A' || c > 'Z') && c != ' ' && c != '/' {
			return false
		}
	}
	return true
}

// ends returns the addresses of a connection's two sides.
func ends(nc net.Conn) (remote, local netip.AddrPort) {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		remote = a.AddrPort()
	}
	if a, ok := nc.LocalAddr().(*net.TCPAddr); ok {
		local = a.AddrPort()
	}
	return remote, local
}
