package http2

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	frameHead    = 9
	maxFrame     = 16 << 10 // payload of a frame received; the least that may be offered
	firstWindow  = 65535    // until settings say otherwise
	maxWindow    = 1<<31 - 1
	frameWithin  = time.Minute      // for a frame that has begun to arrive
	lingerWithin = time.Second      // unless limits say otherwise
	probeAfter   = 10 * time.Second // of silence a new request asks whether anybody is there
	probeWithin  = 2 * time.Second
)

// end is what differs between the two ends of a connection. The lock is held
// in its methods.
type end interface {
	section(m *mux, b *block) error // a complete header section
	ended(m *mux)                   // a stream has
	away(m *mux, last uint32)       // the peer takes no streams above last
	quiet(m *mux) error             // nothing has come for as long as the read deadline gave
}

// mux is one HTTP/2 connection.
type mux struct {
	nc    net.Conn
	br    *bufio.Reader
	fr    *http2.Framer
	end   end
	limit limits
	wg    sync.WaitGroup // of goroutines that write
	block block          // being read

	mu      *sync.Mutex // guards the rest; the same for all connections of one Client
	err     error       // why nothing goes any more
	leaving bool        // no new streams: either side has said so
	parting bool        // all streams have ended too
	shut    bool        // and this side's half has
	streams map[uint32]*stream
	last    uint32 // the highest stream id that was used by who opens streams
	held    int    // streams promised to pipes that have yet to open them
	blocked map[*pipe]struct{}

	out, spare []byte
	writing    bool
	rested     sync.Cond // writing has become false
	hasty      bool      // writing must not take long
	enc        *hpack.Encoder
	encoded    bytes.Buffer
	window     int64 // for bodies sent
	frame      int   // payload of a frame sent
	perStream  int64 // window of a new stream, for bodies sent
	most       int   // streams that the peer takes at a time
	room       int64 // window for bodies received
	owed       int64 // of it, used up and not given back

	active  time.Time // when the last stream ended, or the connection began
	heard   time.Time // when the last frame came
	probing bool      // an answer to a ping is waited for
	calm    calm
}

// limits are what one connection may use.
type limits struct {
	head     int           // bytes of a header section
	streams  int           // at a time, opened by the peer
	stream   int64         // bytes received on one stream that nobody has read
	all      int64         // and on all of them
	idle     time.Duration // without a stream
	linger   time.Duration // for the other side to end, once all is said
	write    time.Duration // for the peer to take what is written
	settings time.Duration // for the peer's first
}

func newMux(nc net.Conn, mu *sync.Mutex, e end, l limits) *mux {
	now := time.Now()
	if l.linger == 0 {
		l.linger = lingerWithin
	}
	m := &mux{
		nc: nc, br: bufio.NewReaderSize(nc, 4<<10), end: e, limit: l, mu: mu,
		streams: map[uint32]*stream{}, blocked: map[*pipe]struct{}{},
		window: firstWindow, perStream: firstWindow, frame: maxFrame, most: 100,
		room: l.all, active: now, heard: now, calm: calm{at: now},
	}
	m.fr = http2.NewFramer(io.Discard, m.br)
	m.fr.SetReuseFrames()
	m.fr.SetMaxReadFrameSize(maxFrame)
	m.enc = hpack.NewEncoder(&m.encoded)
	m.block.init(l.head)
	m.rested.L = mu
	return m
}

// run reads frames until the connection ends, and lets nothing remain of it.
func (m *mux) run() error {
	err := m.read()
	m.accuse(err)
	m.mu.Lock()
	m.failLocked(err)
	m.mu.Unlock()
	m.nc.Close()
	m.wg.Wait()
	return err
}

func (m *mux) read() error {
	m.rest(m.limit.idle)
	for {
		if err := m.await(); err != nil {
			return err
		}
		f, err := m.next()
		m.mu.Lock()
		m.heard = time.Now()
		if m.probing {
			m.probing = false
			m.rest(m.limit.idle)
		}
		if err == nil {
			err = m.takeLocked(f)
		}
		err = m.forgiveLocked(err)
		m.kickLocked()
		m.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// rest bounds how long nothing may come.
func (m *mux) rest(d time.Duration) { m.nc.SetReadDeadline(time.Now().Add(d)) }

// await waits for a frame to begin.
func (m *mux) await() error {
	for {
		_, err := m.br.Peek(frameHead)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || m.br.Buffered() > 0:
			return err
		}
		m.mu.Lock()
		err = m.end.quiet(m)
		m.kickLocked()
		m.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// next reads a frame that has begun to arrive.
func (m *mux) next() (http2.Frame, error) {
	h, err := m.fr.ReadFrameHeader()
	if err != nil {
		return nil, err
	}
	whole := m.br.Buffered() >= int(h.Length)
	if !whole {
		m.rest(frameWithin)
	}
	f, err := m.fr.ReadFrameForHeader(h)
	if !whole {
		m.rest(m.limit.idle)
	}
	var se http2.StreamError
	if h.Type == http2.FrameHeaders && errors.As(err, &se) {
		return nil, http2.ConnectionError(se.Code) // its part of the compression state is lost
	}
	return f, err
}

// forgiveLocked resets the stream that an error concerns, and returns errors
// that concern the whole connection.
func (m *mux) forgiveLocked(err error) error {
	var se http2.StreamError
	if !errors.As(err, &se) {
		return err
	}
	if s := m.streams[se.StreamID]; s != nil {
		m.resetLocked(s, se.Code, fmt.Errorf("%w: %w", ErrReset, se))
	} else {
		m.rstLocked(se.StreamID, se.Code)
	}
	return m.calm.spend(resetCost)
}

// accuse tells the peer what it did wrong, if it did, and can be told without
// waiting for long. What it sends meanwhile is read away, since closing with
// unread bytes would destroy what was said.
func (m *mux) accuse(err error) {
	code := http2.ErrCodeFrameSize
	var ce http2.ConnectionError
	switch {
	case errors.As(err, &ce):
		code = http2.ErrCode(ce)
	case !errors.Is(err, http2.ErrFrameTooLarge):
		return
	}
	m.mu.Lock()
	m.hasty = true
	m.nc.SetWriteDeadline(time.Now().Add(m.limit.linger)) // for who writes already
	m.goAwayLocked(code)
	for m.writing {
		m.rested.Wait()
	}
	m.flushLocked()
	hc, ok := m.nc.(interface{ CloseWrite() error })
	ok = ok && m.err == nil
	m.mu.Unlock()
	if ok && hc.CloseWrite() == nil {
		m.rest(m.limit.linger)
		io.Copy(io.Discard, m.nc) // until it has ended too, or the deadline
	}
}

// failLocked ends the connection for everybody.
func (m *mux) failLocked(err error) {
	if m.err != nil {
		return
	}
	// Not wrapped: a deadline of the connection's is none of a stream's.
	m.err, m.leaving = fmt.Errorf("%w: %v", errLost, err), true
	for _, s := range m.streams {
		s.failLocked(m.err)
	}
	clear(m.streams)
	m.wakeLocked()
	m.end.ended(m)
	m.nc.Close()
}

// leaveLocked ends the connection as soon as its streams have.
func (m *mux) leaveLocked() {
	if !m.leaving {
		m.leaving = true
		m.goAwayLocked(http2.ErrCodeNo)
	}
	m.partLocked()
}

// partLocked says good-bye once nothing is left to be said. The peer is given a
// moment to end its half, since closing with unread bytes could destroy what it has not read yet.
func (m *mux) partLocked() {
	if !m.leaving || m.parting || len(m.streams) > 0 || m.held > 0 || m.err != nil {
		return
	}
	m.parting = true
	m.wg.Go(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.flushLocked() // shuts at its end; where somebody else writes, at the end of that
	})
}

func (m *mux) shutLocked() {
	if m.shut {
		return
	}
	m.shut = true
	if hc, ok := m.nc.(interface{ CloseWrite() error }); ok && m.err == nil {
		m.rest(m.limit.linger)
		m.mu.Unlock()
		hc.CloseWrite() // a connection that is gone already shows when it is read
		m.mu.Lock()
		return
	}
	m.nc.Close()
}

// endedLocked forgets a stream.
func (m *mux) endedLocked(s *stream) {
	if m.streams[s.id] != s {
		return
	}
	delete(m.streams, s.id)
	if s.err != nil { // nobody reads what is there
		m.owedLocked(s.owed)
		s.owed = 0
	}
	m.active = time.Now()
	m.end.ended(m)
	m.partLocked()
}

// wakeLocked wakes who waits to send.
func (m *mux) wakeLocked() {
	for p := range m.blocked {
		p.wr.cond.Broadcast()
	}
}
