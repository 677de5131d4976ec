package http2

import "golang.org/x/net/http2"

// takeLocked takes a frame. A StreamError concerns its stream alone.
func (m *mux) takeLocked(f http2.Frame) error {
	id := f.Header().StreamID
	switch f := f.(type) {
	case *http2.HeadersFrame:
		m.block.begin(id, f.StreamEnded())
		return m.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		return m.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return m.dataLocked(f)
	case *http2.WindowUpdateFrame:
		return m.widerLocked(id, int64(f.Increment))
	case *http2.RSTStreamFrame:
		return m.wasResetLocked(id, f.ErrCode)
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if err := m.applyLocked(f); err != nil {
			return err
		}
		m.out = appendFrame(m.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
		return m.controlLocked()
	case *http2.PingFrame:
		if f.IsAck() {
			return nil
		}
		m.pingLocked(true, f.Data)
		return m.controlLocked()
	case *http2.GoAwayFrame:
		m.end.away(m, f.LastStreamID)
		return nil
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return m.controlLocked() // priorities, and what is not known here
}

// controlLocked counts a frame that is not part of a request.
func (m *mux) controlLocked() error {
	if len(m.out) > outMost {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	return m.calm.spend(frameCost)
}

func (m *mux) fragment(b []byte, last bool) error {
	if err := m.block.add(b, last); err != nil {
		return err
	}
	if !last {
		return nil
	}
	return m.end.section(m, &m.block)
}

func (m *mux) dataLocked(f *http2.DataFrame) error {
	size := int64(f.Length)
	if m.room -= size; m.room < 0 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	s := m.streams[f.StreamID]
	if s == nil {
		m.owedLocked(size)
		if m.idleLocked(f.StreamID) {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return m.controlLocked() // of a stream that was reset just now, as a rule
	}
	if err := s.dataLocked(f.Data(), size, f.StreamEnded()); err != nil {
		return err
	}
	if len(f.Data()) == 0 && !f.StreamEnded() {
		return m.controlLocked()
	}
	return nil
}

// idleLocked reports whether a stream was never opened.
func (m *mux) idleLocked(id uint32) bool { return id%2 == 0 || id > m.last }

func (m *mux) widerLocked(id uint32, n int64) error {
	if id == 0 {
		if m.window += n; m.window > maxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		m.wakeLocked()
		return nil
	}
	s := m.streams[id]
	if s == nil {
		if m.idleLocked(id) {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return nil
	}
	if s.window += n; s.window > maxWindow {
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeFlowControl}
	}
	s.p.wr.cond.Broadcast()
	return nil
}

func (m *mux) wasResetLocked(id uint32, code http2.ErrCode) error {
	s := m.streams[id]
	if s == nil {
		if m.idleLocked(id) {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return m.controlLocked()
	}
	var err error = &ResetError{Code: code}
	if code == http2.ErrCodeRefusedStream && !s.headed && s.interim == 0 {
		err = ErrUnprocessed
	}
	s.failLocked(err)
	m.endedLocked(s)
	return m.calm.spend(resetCost)
}

// applyLocked obeys the peer's settings.
func (m *mux) applyLocked(f *http2.SettingsFrame) error {
	return f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID {
		case http2.SettingInitialWindowSize:
			more := int64(s.Val) - m.perStream
			m.perStream = int64(s.Val)
			for _, s := range m.streams {
				if s.window += more; s.window > maxWindow {
					return http2.ConnectionError(http2.ErrCodeFlowControl)
				}
				s.p.wr.cond.Broadcast()
			}
		case http2.SettingMaxFrameSize:
			m.frame = min(int(s.Val), maxFrame)
		case http2.SettingMaxConcurrentStreams:
			m.most = int(min(s.Val, 1<<20))
		case http2.SettingHeaderTableSize:
			m.enc.SetMaxDynamicTableSizeLimit(min(s.Val, 4096))
			m.enc.SetMaxDynamicTableSize(min(s.Val, 4096))
		}
		return nil
	})
}
