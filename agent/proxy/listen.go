package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// closeAfter is for how long a listener that is taken away still accepts: those
// who wait there have connected already.
const closeAfter = 50 * time.Millisecond

// entrances are the listeners that the proxy accepts connections from.
type entrances struct {
	mu    sync.Mutex // guards the rest
	doors []*entrance
	start func(*entrance) // nil while nothing runs
	ended bool
}

type entrance struct {
	ln     net.Listener
	bare   *netloop.Listener // the same, for connections that go to a loop; nil: none do
	closed chan struct{}     // it was taken away
}

// close closes the listener, which may have failed already.
func (d *entrance) close() {
	d.ln.Close()
	if d.bare != nil {
		d.bare.Close()
	}
}

// Listen sets which listeners connections are accepted from. Those that were
// there and are not any more are closed, after who waits there was accepted;
// their connections stay. A running proxy accepts from new ones at once.
func (p *Proxy) Listen(list ...net.Listener) {
	e := &p.entrances
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		for _, ln := range list {
			ln.Close() // nobody can come any more
		}
		return
	}
	var doors []*entrance
	for _, d := range e.doors {
		if slices.Contains(list, d.ln) {
			doors = append(doors, d)
			continue
		}
		close(d.closed)
		if e.start == nil || !d.expire() {
			d.close() // it was of no use any more
		}
	}
	for _, ln := range list {
		if slices.ContainsFunc(e.doors, func(d *entrance) bool { return d.ln == ln }) {
			continue
		}
		d := &entrance{ln: ln, closed: make(chan struct{})}
		doors = append(doors, d)
		if e.start != nil {
			e.start(d)
		}
	}
	e.doors = doors
}

// expire makes accepting end soon, if that can be told to the listener.
func (d *entrance) expire() bool {
	ln := d.ln
	if door, ok := ln.(*Door); ok {
		ln = door.Listener
	}
	at := time.Now().Add(closeAfter)
	l, ok := ln.(interface{ SetDeadline(time.Time) error })
	return ok && l.SetDeadline(at) == nil && (d.bare == nil || d.bare.SetDeadline(at) == nil)
}

// begin accepts from the listeners that are there and those that come, until
// ctx ends. It returns what waits for all that, and for their end.
func (e *entrances) begin(ctx context.Context, bare func(net.Listener) *netloop.Listener, accept func(*entrance)) (wait func()) {
	var loops sync.WaitGroup
	e.mu.Lock()
	defer e.mu.Unlock()
	e.start = func(d *entrance) {
		d.bare = bare(d.ln)
		loops.Go(func() {
			accept(d)
			d.close()
		})
	}
	for _, d := range e.doors {
		e.start(d)
	}
	return func() {
		<-ctx.Done()
		e.mu.Lock()
		e.start, e.ended = nil, true
		for _, d := range e.doors {
			d.close()
		}
		e.doors = nil
		e.mu.Unlock()
		loops.Wait()
	}
}

// gone reports whether the listener was taken away.
func (d *entrance) gone() bool {
	select {
	case <-d.closed:
		return true
	default:
		return false
	}
}

func (p *Proxy) accept(ctx context.Context, d *entrance) error {
	ln := d.ln
	var secure *tls.Config
	if door, ok := ln.(*Door); ok {
		secure = door.TLS
	}
	pause := time.Duration(0)
	var said time.Time
	for {
		if p.await(ctx, d.closed) && time.Since(said) > time.Minute {
			said = time.Now()
			p.log.Warn("as many connections as proxy.limits.connections allows, others wait", "addr", ln.Addr(), "limit", p.config().Limits.Connections)
		}
		err := p.acceptOne(d, secure)
		if err != nil {
			var ne net.Error
			switch {
			case ctx.Err() != nil || d.gone():
				return nil
			case errors.As(err, &ne) && !errors.Is(err, net.ErrClosed):
				// Out of descriptors, as a rule: wait for some to come back.
				if pause == 0 {
					p.log.Warn("cannot accept connections", "addr", ln.Addr(), "error", err)
				}
				pause = min(max(2*pause, 5*time.Millisecond), time.Second)
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
				continue
			}
			return fmt.Errorf("accept on %s: %w", ln.Addr(), err)
		}
		pause = 0
	}
}

// acceptOne waits for a connection and begins with it. Those that go to a loop right
// away never become a net.Conn.
func (p *Proxy) acceptOne(d *entrance, secure *tls.Config) error {
	if d.bare == nil || p.config().PeerHeader != PeerHeaderOff {
		nc, err := d.ln.Accept()
		if err == nil {
			p.admit(nc, secure)
		}
		return err //nolint:wrapcheck // the caller says what was being done
	}
	fd, remote, local, err := d.bare.Accept()
	if err == nil {
		p.admitBare(fd, peerAt(remote, local))
	}
	return err //nolint:wrapcheck // the caller says what was being done
}

// admit begins with a connection.
func (p *Proxy) admit(nc net.Conn, secure *tls.Config) {
	cfg, peer := p.config(), newPeer(nc)
	if !p.enter(peer, cfg) {
		nc.Close()
		return
	}
	if secure == nil && cfg.PeerHeader == PeerHeaderOff && p.loops.take(nc, peer) {
		return
	}
	p.adopt(newConn(p, nc, peer, secure))
}

// admitBare begins with a connection of which there is only the descriptor.
func (p *Proxy) admitBare(fd int, peer *peer) {
	cfg := p.config()
	if !p.enter(peer, cfg) {
		netloop.Close(fd)
		return
	}
	// What connections begin with may have changed while this one was waited for.
	if cfg.PeerHeader == PeerHeaderOff && p.loops.takeBare(fd, peer) {
		return
	}
	nc, err := netloop.Give(fd)
	if err != nil {
		p.log.Warn("a connection could not be carried", "addr", peer.addr, "error", err)
		peer.leave()
		return
	}
	p.adopt(newConn(p, nc, peer, nil))
}

// enter lets a connection in, or reports false: it is to be closed.
func (p *Proxy) enter(peer *peer, cfg *Config) bool {
	if p.gate.enter(peer, cfg) {
		return true
	}
	p.log.Debug("connection closed, its client has as many as proxy.limits.connections_per_client allows", "addr", peer.addr)
	peer.leave()
	return false
}
