package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// callServer answers the calls of one connection.
type callServer struct {
	t    *Transport
	from Hello
	out  *outbox
	wg   sync.WaitGroup // the handlers

	mu      sync.Mutex // guards running
	running map[uint64]context.CancelFunc
}

// serveCalls answers calls until the connection ends, and returns when the last
// handler has.
func (t *Transport) serveCalls(ctx context.Context, conn net.Conn, from Hello) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &callServer{t: t, from: from, out: newOutbox(t.opts.QueueBytes), running: map[uint64]context.CancelFunc{}}
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := newWriter(conn, t.opts.WriteTimeout).run(s.out, &stop); err != nil {
			conn.Close() // so that reading ends too
		}
	})
	err := s.read(ctx, conn)
	cancel()
	conn.Close()
	stop.Store(true)
	s.out.signal()
	writer.Wait()
	s.wg.Wait()
	return err
}

func (s *callServer) read(ctx context.Context, conn net.Conn) error {
	r := newFrameReader(reader(conn), s.t.opts.MaxFrame)
	for {
		for {
			kind, payload, ok, err := r.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := s.take(ctx, kind, payload); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}

func (s *callServer) take(ctx context.Context, kind byte, payload []byte) error {
	switch kind {
	case kindPing:
		return s.out.push(kindPing, nil, nil, true)
	case kindCancel:
		id, err := parseID(payload)
		if err != nil {
			return err
		}
		s.mu.Lock()
		if cancel := s.running[id]; cancel != nil {
			cancel()
		}
		s.mu.Unlock()
		return nil
	case kindRequest:
		r, err := parseRequest(payload)
		if err != nil {
			return err
		}
		return s.start(ctx, r)
	}
	return fmt.Errorf("kind %d on the call lane: %w", kind, errBadFrame)
}

func (s *callServer) start(ctx context.Context, r request) error {
	h := s.t.callHandlers[r.method]
	if h == nil {
		return s.answer(r.id, nil, &CodedError{Code: CodeUnknownMethod,
			Message: fmt.Sprintf("no method %d in this version", r.method)})
	}
	var cancel context.CancelFunc
	if r.left > 0 {
		ctx, cancel = context.WithTimeout(ctx, r.left)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	s.mu.Lock()
	busy, twice := len(s.running) >= s.t.opts.MaxCalls, s.running[r.id] != nil
	if !busy && !twice {
		s.running[r.id] = cancel
	}
	s.mu.Unlock()
	if twice {
		cancel()
		return fmt.Errorf("call id used twice: %w", errBadFrame)
	}
	if busy {
		cancel()
		return s.answer(r.id, nil, &CodedError{Code: CodeOverloaded, Message: "too many calls at once"})
	}
	body := bytes.Clone(r.body)
	s.wg.Go(func() {
		got, err := h(ctx, s.from, body)
		s.mu.Lock()
		delete(s.running, r.id)
		s.mu.Unlock()
		cancel()
		if err := s.answer(r.id, got, err); err != nil {
			s.t.log.Debug("answer dropped", "member", s.from.ID, "error", err)
		}
	})
	return nil
}

// answer queues the outcome of a call.
func (s *callServer) answer(id uint64, body []byte, err error) error {
	code := ""
	if err == nil && 1+9+len(body) > s.t.opts.MaxFrame {
		err = &CodedError{Code: CodeTooLarge, Message: ErrTooLarge.Error()}
	}
	if err != nil {
		var coded *CodedError
		switch {
		case errors.As(err, &coded) && coded.Code != "":
			code, body = coded.Code, []byte(coded.Message)
		case errors.Is(err, context.DeadlineExceeded):
			code, body = CodeDeadline, []byte(err.Error())
		default:
			code, body = CodeInternal, []byte(err.Error())
		}
	}
	var head [9 + 255]byte
	push := s.out.pushTogether(kindResponse, appendResponseHead(head[:0], id, code), body)
	if errors.Is(push, ErrFull) && len(body) > 1024 {
		// Large answers wait for a slow reader; say so rather than nothing.
		return s.answer(id, nil, &CodedError{Code: CodeOverloaded, Message: "answers wait to be read"})
	}
	return push
}
