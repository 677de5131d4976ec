package http2

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/rondel-project/rondel/agent/http1"
)

// What a client may have received on one stream, and on all of them, that
// nobody has read yet.
const (
	serverStream = 256 << 10
	serverAll    = 1 << 20
)

// ServerOptions say how a connection from a client is served.
type ServerOptions struct {
	Head    int           // bytes of a request's header section; beyond it: 431
	Streams int           // requests at a time; others are refused, which clients repeat
	Header  time.Duration // for the client's first words
	Idle    time.Duration // without a request
	Write   time.Duration // for the client to take what is written
	// Serve takes charge of a connection that exists in memory alone. It must
	// not wait. Requests come on it one after the other.
	Serve func(net.Conn)
	// TooLarge is told of a header section over the limit.
	TooLarge func(size int)
}

// Server is one HTTP/2 connection from a client. Its methods may be called
// from any goroutine.
//
// A client has at most Streams requests under way, counted until who answers
// has let go of them, however many it has reset. It may reset, and ask for
// answers to frames that belong to no request, at a rate that no honest client
// reaches; beyond that its connection ends with ENHANCE_YOUR_CALM.
type Server struct {
	opt ServerOptions
	m   *mux

	mu    sync.Mutex // guards the rest, and m
	idle  []*pipe
	pipes int
}

// NewServer serves nc, which is closed in the end. It starts nothing.
func NewServer(nc net.Conn, opt ServerOptions) *Server {
	s := &Server{opt: opt}
	s.m = newMux(nc, &s.mu, s, limits{
		head: opt.Head, streams: opt.Streams, stream: serverStream, all: serverAll,
		idle: opt.Idle, write: opt.Write, settings: opt.Header,
	})
	return s
}

// Run serves until the connection has ended. Requests that are still under way
// then find their connections broken.
func (s *Server) Run() error {
	if err := s.greet(); err != nil {
		s.m.nc.Close()
		s.mu.Lock()
		s.m.failLocked(err)
		s.mu.Unlock()
		s.m.wg.Wait()
		return err
	}
	err := s.m.run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, io.EOF) || s.m.parting {
		return nil
	}
	return err
}

// greet reads the client's preface and says what it may do.
func (s *Server) greet() error {
	m := s.m
	m.rest(m.limit.settings)
	got := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(m.br, got); err != nil {
		return fmt.Errorf("read the preface: %w", err)
	}
	if string(got) != http2.ClientPreface {
		return errPreface
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.settingsLocked(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(m.limit.streams)},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: serverStream},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(m.limit.head)},
		http2.Setting{ID: http2.SettingEnableConnectProtocol, Val: 1},
	)
	m.windowLocked(0, serverAll-firstWindow)
	m.kickLocked()
	return nil
}

// Shutdown has the connection end when the requests under way have: no others
// are taken.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.leaveLocked()
	s.m.kickLocked()
	s.ended(s.m)
}

// Retire is Shutdown for a connection that has been of use and has no request
// under way. It reports whether it is one.
func (s *Server) Retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m.last == 0 || s.m.leaving || len(s.m.streams) > 0 || s.pipes > len(s.idle) {
		return false
	}
	s.m.leaveLocked()
	s.m.kickLocked()
	s.ended(s.m)
	return true
}

// section implements end.
func (s *Server) section(m *mux, b *block) error {
	if b.id%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if st := m.streams[b.id]; st != nil {
		return st.trailersLocked(b, false)
	}
	if b.id <= m.last || m.leaving { // of a stream that was reset; or it knows by now that it is not taken
		return m.controlLocked()
	}
	m.last = b.id
	switch {
	case b.bad != nil:
		return malformed(b.id, b.bad)
	case len(m.streams) >= m.limit.streams, s.pipes-len(s.idle) >= m.limit.streams:
		return http2.StreamError{StreamID: b.id, Code: http2.ErrCodeRefusedStream}
	case b.over:
		return s.tooLarge(m, b)
	}
	st := &stream{m: m, id: b.id, window: m.perStream, room: m.limit.stream, headed: true}
	if err := st.open(b); err != nil {
		return malformed(b.id, err)
	}
	n := len(s.idle)
	if n > 0 {
		p := s.idle[n-1]
		s.idle[n-1] = nil
		s.idle = s.idle[:n-1]
		s.begin(p, st, b)
		return nil
	}
	s.pipes++
	p := newPipe(&s.mu, s, m)
	s.begin(p, st, b)
	s.mu.Unlock()
	s.opt.Serve(p)
	s.mu.Lock()
	return nil
}

func (s *Server) begin(p *pipe, st *stream, b *block) {
	s.m.streams[st.id] = st
	p.beginLocked(st)
	p.in = st.appendRequest(p.in, b)
	if b.end {
		st.got = true
	}
}

// tooLarge answers a request whose header section is over the limit.
func (s *Server) tooLarge(m *mux, b *block) error {
	m.field(":status", "431", false)
	m.field("content-length", "0", false)
	m.headersLocked(b.id, true)
	if !b.end {
		m.rstLocked(b.id, http2.ErrCodeNo)
	}
	if size := b.size; s.opt.TooLarge != nil {
		s.mu.Unlock()
		s.opt.TooLarge(size)
		s.mu.Lock()
	}
	return m.calm.spend(resetCost)
}

// ended implements end.
func (s *Server) ended(m *mux) {
	if !m.leaving {
		return
	}
	for _, p := range s.idle {
		p.over = true
		p.rd.cond.Broadcast()
	}
}

// away implements end.
func (s *Server) away(m *mux, _ uint32) { m.leaveLocked() }

// quiet implements end.
func (s *Server) quiet(m *mux) error {
	left := m.limit.idle - time.Since(m.active)
	switch {
	case m.parting:
		return io.EOF
	case len(m.streams) > 0:
		m.rest(m.limit.idle)
	case left > 0:
		m.rest(left)
	default:
		m.rest(m.limit.linger)
		m.leaveLocked()
		s.ended(m)
	}
	return nil
}

// done implements host: the pipe waits for the next request.
func (s *Server) done(p *pipe) {
	p.s = nil
	p.over = p.m.leaving
	s.idle = append(s.idle, p)
}

// closed implements host.
func (s *Server) closed(p *pipe) {
	s.pipes--
	if i := slices.Index(s.idle, p); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	st := p.s
	if st == nil || st.err != nil || st.sent && st.got {
		return
	}
	code := http2.ErrCodeInternal
	switch {
	case p.why != http2.ErrCodeNo:
		code = p.why
	case st.sent: // the rest of the request is of no interest
		code = http2.ErrCodeNo
	case st.body == tunnel:
		code = http2.ErrCodeConnect
	}
	p.m.resetLocked(st, code, net.ErrClosed)
}

// head implements host: it sends a response's head.
func (s *Server) head(p *pipe, head, rest []byte) (used int, err error) {
	st, r := p.s, &p.o.resp
	if st == nil {
		return 0, errBeyond
	}
	if err := p.clearLocked(st); err != nil {
		return 0, err
	}
	if err := r.Parse(head, st.method); err != nil {
		return 0, err
	}
	m := p.m
	switch asked := st.body == tunnel; {
	case r.Status == 101 && asked:
		m.field(":status", "200", false)
		m.responseFields(r, true)
		m.headersLocked(st.id, false)
		p.o.state = inTunnel
		return 0, nil
	case r.Status == 101, r.Framing == http1.UntilClose:
		return 0, errBeyond
	case asked && r.Status >= 200:
		st.body, st.left = sized, 0
		if r.Status < 300 { // here that would mean that the tunnel is open
			m.field(":status", "502", false)
			m.headersLocked(st.id, true)
			st.sentLocked()
			return 0, errNoTunnel
		}
	}
	m.field(":status", strconv.Itoa(r.Status), false)
	m.responseFields(r, false)
	if r.Status < 200 {
		m.headersLocked(st.id, false)
		return 0, nil
	}
	end, used := p.o.body(r.Framing, r.Length, rest)
	m.headersLocked(st.id, end)
	if end {
		st.sentLocked()
	}
	return used, nil
}
