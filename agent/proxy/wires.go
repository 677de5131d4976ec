package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
	"github.com/rondel-project/rondel/agent/http2"
)

// What an instance may speak.
const (
	speaksHTTPS = "https" // HTTP/1.1 over TLS
	speaksH2    = "h2"    // HTTP/2 over TLS
	speaksH2C   = "h2c"   // HTTP/2 without
)

// InstanceTLS is how instances are reached that speak TLS.
type InstanceTLS struct {
	Roots      *x509.CertPool // whose certificates are believed; nil: the system's
	Name       string         // in their certificates, with the service's name for a "*"; "": their address
	SkipVerify bool           // any certificate will do
	Sessions   tls.ClientSessionCache
}

// wires is how requests get to one instance.
type wires struct {
	pool  *http1.Pool
	mux   *http2.Client // pool takes its connections from it, if the instance speaks HTTP/2
	plain *http1.Pool   // for upgrades there, which it takes over HTTP/1.1
}

// newWires makes no connection, and reads the configuration at each use. With a
// client they are for its requests alone.
func (b *backend) newWires(client *peer) wires {
	k := &b.key
	secure := k.protocol == speaksHTTPS || k.protocol == speaksH2
	dial := func(protocol string) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			within := b.cfg().connectWithin(k.service)
			end := time.Now().Add(within)
			nc, err := b.reach(client, within)
			if err != nil || !secure {
				return nc, err
			}
			return shakeInstance(nc, b.cfg().InstanceTLS.config(k, protocol), end)
		}
	}
	pool := func(dial func() (net.Conn, error)) *http1.Pool {
		return http1.NewPool(http1.PoolOptions{Dial: dial, Buffer: upstreamBuffer, MaxIdle: func() int { return b.cfg().Limits.IdlePerHost }})
	}
	const overHTTP1 = "http/1.1"
	if k.protocol != speaksH2 && k.protocol != speaksH2C {
		return wires{pool: pool(dial(overHTTP1))}
	}
	mux := http2.NewClient(http2.ClientOptions{
		Dial: dial(protocolHTTP2), Secure: secure, Go: b.run,
		Limits: func() http2.Limits {
			c := b.cfg()
			return http2.Limits{Head: c.Limits.ResponseHead, Idle: c.Timeouts.Upstream, Write: c.Timeouts.Send, Greet: c.connectWithin(k.service)}
		},
	})
	return wires{pool: pool(mux.Dial), mux: mux, plain: pool(dial(overHTTP1))}
}

// config returns what is spoken to one instance.
func (t InstanceTLS) config(k *key, protocol string) *tls.Config {
	name := strings.Replace(t.Name, "*", k.service, 1)
	if name == "" {
		name, _, _ = net.SplitHostPort(k.addr) // it was dialled, so it has a port
	}
	return &tls.Config{
		RootCAs: t.Roots, ServerName: name, InsecureSkipVerify: t.SkipVerify, ClientSessionCache: t.Sessions,
		NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12,
	}
}

var errProtocol = errors.New("the instance speaks TLS, but not HTTP/2")

func shakeInstance(nc net.Conn, cfg *tls.Config, end time.Time) (net.Conn, error) {
	t := tls.Client(nc, cfg)
	nc.SetDeadline(end) // fails on a closed connection, as the handshake will
	err := t.Handshake()
	if err == nil && cfg.NextProtos[0] == protocolHTTP2 && t.ConnectionState().NegotiatedProtocol != protocolHTTP2 {
		err = errProtocol
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	nc.SetDeadline(time.Time{})
	return t, nil
}

// shared reports whether one connection carries many requests at a time.
func (w *wires) shared() bool { return w.mux != nil }

// poolFor returns where a connection for a request comes from.
func (w *wires) poolFor(x *exchange) *http1.Pool {
	if w.plain != nil && x.passUpgrade() {
		return w.plain
	}
	return w.pool
}

func (w *wires) sweep(now time.Time, idle time.Duration) {
	w.pool.Sweep(now, idle)
	if w.plain != nil {
		w.plain.Sweep(now, idle)
	}
}

func (w *wires) close() {
	w.pool.Close()
	if w.mux != nil {
		w.plain.Close()
		w.mux.Close()
	}
}

// spared takes in what HTTP/2 tells of a request that got no answer.
func (x *exchange) spared(err error) {
	switch {
	case errors.Is(err, http2.ErrUnprocessed):
		x.touched = false
	case errors.Is(err, http2.ErrReset):
		x.reset = err
	}
}
