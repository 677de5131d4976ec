package http2

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const (
	// clientStream is what an instance may have sent on one stream that nobody
	// has read yet. There is no bound on all streams together: one slow client
	// must not hold up the others that share its connection.
	clientStream = 128 << 10
	lastID       = 1<<31 - 1<<10
)

// Limits are what connections to instances may use.
type Limits struct {
	Head  int           // bytes of a response's header section
	Idle  time.Duration // without a request
	Write time.Duration // for the instance to take what is written
	Greet time.Duration // for the instance's first words
}

// ClientOptions say how instances are reached.
type ClientOptions struct {
	Dial   func() (net.Conn, error) // bounded in time by itself
	Limits func() Limits            // in force for new connections
	Secure bool                     // the requests' scheme is https
	Go     func(func())             // runs what reads a connection, and waits for it in the end
}

// Client is all HTTP/2 connections to one instance. Its methods may be called
// from any goroutine.
type Client struct {
	opt ClientOptions

	mu     sync.Mutex // guards the rest, and all connections
	conns  []*mux     // those that take streams first
	call   *call      // that makes another one
	ending bool
}

// call is the making of a connection, which others wait for too.
type call struct {
	done chan struct{}
	err  error
}

// NewClient returns a client that has no connection yet.
func NewClient(opt ClientOptions) *Client { return &Client{opt: opt} }

// Dial returns an in-memory connection that takes HTTP/1.1 requests one after
// the other. The instance was reached, now or before, and has room for a request.
func (c *Client) Dial() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.ending {
			return nil, ErrClosed
		}
		if m := c.roomLocked(); m != nil {
			m.held++
			p := newPipe(&c.mu, c, m)
			p.held, p.over = true, true
			return p, nil
		}
		if err := c.connectLocked(); err != nil {
			return nil, err
		}
	}
}

// Close ends the connections as soon as the requests under way have.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	for _, m := range slices.Clone(c.conns) {
		m.leaveLocked()
		m.kickLocked()
	}
}

// roomLocked returns a connection that takes another stream, or nil.
func (c *Client) roomLocked() *mux {
	for _, m := range c.conns {
		if m.takesLocked() && len(m.streams)+m.held < m.most {
			return m
		}
	}
	return nil
}

func (m *mux) takesLocked() bool { return !m.leaving && m.last < lastID }

// connectLocked makes a connection, or waits until somebody else has.
func (c *Client) connectLocked() error {
	if one := c.call; one != nil {
		c.mu.Unlock()
		<-one.done
		c.mu.Lock()
		return one.err
	}
	one := &call{done: make(chan struct{})}
	c.call = one
	c.mu.Unlock()
	m, err := c.connect()
	c.mu.Lock()
	c.call, one.err = nil, err
	close(one.done)
	if err != nil {
		return err
	}
	c.conns = append(c.conns, m)
	if c.ending {
		m.leaveLocked()
	}
	m.kickLocked()
	c.opt.Go(func() { m.run() }) // its streams are told why it ended
	return nil
}

// connect makes a connection and waits for the instance's settings: only then
// is it known to speak HTTP/2, and how many streams it takes.
func (c *Client) connect() (*mux, error) {
	nc, err := c.opt.Dial()
	if err != nil {
		return nil, err
	}
	l := c.opt.Limits()
	m := newMux(nc, &c.mu, c, limits{
		head: l.Head, stream: clientStream, all: maxWindow, idle: l.Idle, write: l.Write, settings: l.Greet,
	})
	if err := c.greet(m); err != nil {
		nc.Close()
		m.wg.Wait()
		return nil, fmt.Errorf("speak HTTP/2 with %s: %w", nc.RemoteAddr(), err)
	}
	return m, nil
}

func (c *Client) greet(m *mux) error {
	m.rest(m.limit.settings)
	c.mu.Lock()
	m.out = append(m.out, http2.ClientPreface...)
	m.settingsLocked(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: clientStream},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(m.limit.head)},
	)
	m.windowLocked(0, maxWindow-firstWindow)
	m.flushLocked()
	err := m.err
	c.mu.Unlock()
	if err != nil {
		return err
	}
	f, err := m.fr.ReadFrame()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := f.(*http2.SettingsFrame); !ok || s.IsAck() {
		return errPreface
	}
	if err := m.takeLocked(f); err != nil {
		return err
	}
	return nil
}

// section implements end.
func (c *Client) section(m *mux, b *block) error {
	if s := m.streams[b.id]; s != nil {
		return s.respond(b)
	}
	if m.idleLocked(b.id) {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return m.controlLocked()
}

// ended implements end.
func (c *Client) ended(m *mux) {
	if m.err == nil && !m.leaving {
		return
	}
	if i := slices.Index(c.conns, m); i >= 0 {
		c.conns = slices.Delete(c.conns, i, i+1)
	}
}

// away implements end.
func (c *Client) away(m *mux, last uint32) {
	m.leaving = true
	for id, s := range m.streams {
		if id > last && !s.headed && s.interim == 0 {
			s.failLocked(ErrUnprocessed)
			m.endedLocked(s)
		}
	}
	c.ended(m)
	m.partLocked()
}

// quiet implements end.
func (c *Client) quiet(m *mux) error {
	left := m.limit.idle - time.Since(m.active)
	switch {
	case m.parting:
		return io.EOF
	case m.probing:
		return errSilent
	case len(m.streams)+m.held > 0:
		m.rest(m.limit.idle)
	case left > 0:
		m.rest(left)
	default:
		m.rest(m.limit.linger)
		m.leaveLocked()
		c.ended(m)
	}
	return nil
}

// head implements host: it opens a stream with a request's head.
func (c *Client) head(p *pipe, head, rest []byte) (used int, err error) {
	if s := p.s; s != nil {
		if s.err != nil {
			return 0, s.err
		}
		if !s.sent || !s.got || p.r < len(p.in) {
			return 0, errBeyond
		}
		p.s = nil
	}
	q := &p.o.req
	if err := q.Parse(head); err != nil {
		return 0, err
	}
	m, err := c.placeLocked(p)
	if err != nil {
		p.over = true
		return 0, err
	}
	id := m.last + 2
	if m.last == 0 {
		id = 1
	}
	m.last = id
	s := &stream{m: m, id: id, window: m.perStream, room: clientStream, method: append([]byte(nil), q.Method...)}
	m.streams[id] = s
	p.beginLocked(s)
	scheme := "http"
	if c.opt.Secure {
		scheme = "https"
	}
	m.field(":method", string(q.Method), false)
	m.field(":scheme", scheme, false)
	if len(q.Host) > 0 {
		m.field(":authority", string(q.Host), false)
	}
	m.field(":path", string(q.Target), false)
	m.requestFields(q)
	end, used := p.o.body(q.Framing, q.Length, rest)
	m.headersLocked(id, end)
	s.sent = end
	if now := time.Now(); now.Sub(m.heard) > probeAfter && !m.probing {
		m.probing = true
		m.pingLocked(false, [8]byte{})
		m.rest(probeWithin)
	}
	return used, nil
}

// placeLocked finds the connection for a pipe's next request: its own, or
// another one when that takes none.
func (c *Client) placeLocked(p *pipe) (*mux, error) {
	for {
		switch m := p.m; {
		case p.closed:
			return nil, net.ErrClosed
		case p.held && m.takesLocked():
		case !p.held && m.takesLocked() && len(m.streams)+m.held < m.most:
		default:
			c.letGo(p)
			if m = c.roomLocked(); m == nil {
				return nil, errNoRoom
			}
			p.m = m
		}
		m := p.m
		if len(m.out) < outEnough {
			c.letGo(p)
			return m, nil
		}
		if p.wr.late() {
			return nil, errNoRoom
		}
		if err := p.blockLocked(m); err != nil {
			return nil, err
		}
	}
}

// letGo gives back the stream that was promised to a pipe.
func (c *Client) letGo(p *pipe) {
	if p.held {
		p.held = false
		p.m.held--
	}
}

// done implements host. The next request begins when it is written.
func (c *Client) done(p *pipe) { p.over, p.s = true, nil }

// closed implements host.
func (c *Client) closed(p *pipe) {
	if p.held {
		c.letGo(p)
		p.m.active = time.Now()
		p.m.partLocked()
	}
	if s := p.s; s != nil && s.err == nil && !(s.sent && s.got) {
		s.m.resetLocked(s, http2.ErrCodeCancel, net.ErrClosed)
	}
}

// Stale reports that the next request would find no connection.
func (p *pipe) Stale() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.host.(*Client)
	return ok && !p.m.takesLocked() && c.roomLocked() == nil
}
