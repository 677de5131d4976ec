package http2

import (
	"encoding/binary"
	"time"

	"golang.org/x/net/http2"
)

const (
	outEnough = 64 << 10  // bytes queued beyond which bodies and heads wait
	outMost   = 512 << 10 // and beyond which the peer asks for too much without reading
)

func appendFrame(dst []byte, length int, t http2.FrameType, flags http2.Flags, id uint32) []byte {
	dst = append(dst, byte(length>>16), byte(length>>8), byte(length), byte(t), byte(flags))
	return binary.BigEndian.AppendUint32(dst, id)
}

func (m *mux) settingsLocked(list ...http2.Setting) {
	m.out = appendFrame(m.out, 6*len(list), http2.FrameSettings, 0, 0)
	for _, s := range list {
		m.out = binary.BigEndian.AppendUint16(m.out, uint16(s.ID))
		m.out = binary.BigEndian.AppendUint32(m.out, s.Val)
	}
}

func (m *mux) windowLocked(id uint32, n int64) {
	m.out = binary.BigEndian.AppendUint32(appendFrame(m.out, 4, http2.FrameWindowUpdate, 0, id), uint32(n))
}

func (m *mux) rstLocked(id uint32, code http2.ErrCode) {
	m.out = binary.BigEndian.AppendUint32(appendFrame(m.out, 4, http2.FrameRSTStream, 0, id), uint32(code))
}

func (m *mux) goAwayLocked(code http2.ErrCode) {
	last := m.last
	if _, client := m.end.(*Client); client {
		last = 0 // instances open no streams
	}
	m.out = binary.BigEndian.AppendUint32(appendFrame(m.out, 8, http2.FrameGoAway, 0, 0), last)
	m.out = binary.BigEndian.AppendUint32(m.out, uint32(code))
}

func (m *mux) pingLocked(ack bool, data [8]byte) {
	var flags http2.Flags
	if ack {
		flags = http2.FlagPingAck
	}
	m.out = append(appendFrame(m.out, 8, http2.FramePing, flags, 0), data[:]...)
}

// headersLocked sends a header section, which m.encoded holds.
func (m *mux) headersLocked(id uint32, end bool) {
	block := m.encoded.Bytes()
	t, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		n := min(len(block), m.frame)
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		m.out = append(appendFrame(m.out, n, t, flags, id), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			break
		}
		t, flags = http2.FrameContinuation, 0
	}
	m.encoded.Reset()
}

// resetLocked ends a stream before its time.
func (m *mux) resetLocked(s *stream, code http2.ErrCode, err error) {
	m.rstLocked(s.id, code)
	s.failLocked(err)
	m.endedLocked(s)
}

// flushLocked writes what is queued, unless somebody else does already. The
// lock is given up meanwhile.
func (m *mux) flushLocked() {
	if m.writing {
		return
	}
	m.writing = true
	for len(m.out) > 0 && m.err == nil {
		buf, within := m.out, m.limit.write
		if m.hasty {
			within = m.limit.linger
		}
		m.out = m.spare[:0]
		m.spare = nil
		m.mu.Unlock()
		m.nc.SetWriteDeadline(time.Now().Add(within))
		_, err := m.nc.Write(buf)
		m.mu.Lock()
		if cap(buf) <= 2*outEnough {
			m.spare = buf[:0]
		}
		if err != nil {
			m.failLocked(err)
		}
		m.wakeLocked()
	}
	m.writing = false
	m.rested.Broadcast()
	if m.parting {
		m.shutLocked()
	}
}

// kickLocked has it written by a goroutine of its own: readers must not wait
// for a peer that itself waits to be read.
func (m *mux) kickLocked() {
	if m.writing || len(m.out) == 0 || m.err != nil {
		return
	}
	m.writing = true
	m.wg.Go(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.writing = false
		m.flushLocked()
	})
}
