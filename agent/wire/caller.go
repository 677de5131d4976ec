package wire

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// caller is the one connection by which calls go to an address.
type caller struct {
	t     *Transport
	addr  string
	out   *outbox
	ready chan struct{} // closed when the dial has succeeded or failed
	fail  error         // set before ready is closed

	mu      sync.Mutex // guards all below
	last    uint64
	pending map[uint64]chan<- answer
	ended   error // set when no answer will come any more
}

type answer struct {
	body []byte
	err  error
}

// Call sends a request and waits for its answer. The deadline of ctx travels
// with it. An error that is a CodedError came from the other side;
// ErrUnreachable means that the request did not leave; ErrOutcomeUnknown, or
// ctx's error, that it may have been acted on.
func (t *Transport) Call(ctx context.Context, addr string, method byte, body []byte) ([]byte, error) {
	if requestHead+1+len(body) > t.opts.MaxFrame {
		return nil, fmt.Errorf("call %s: %w", addr, ErrTooLarge)
	}
	for {
		c, err := t.caller(addr)
		if err != nil {
			return nil, fmt.Errorf("call %s: %w", addr, err)
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("call %s: %w", addr, ctx.Err())
		}
		if c.fail != nil {
			return nil, fmt.Errorf("call %s: %w", addr, c.fail)
		}
		got, err := c.call(ctx, method, body)
		if err == errRetired {
			t.forgetCaller(c) // the connection ended before this request; take a new one
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("call %s: %w", addr, err)
		}
		return got, nil
	}
}

func (t *Transport) caller(addr string) (*caller, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.callers[addr]; c != nil {
		return c, nil
	}
	c := &caller{t: t, addr: addr, out: newOutbox(t.opts.QueueBytes),
		ready: make(chan struct{}), pending: map[uint64]chan<- answer{}}
	if !t.group.Go(c.run) {
		return nil, ErrClosed
	}
	t.callers[addr] = c
	return c, nil
}

func (t *Transport) forgetCaller(c *caller) {
	t.mu.Lock()
	if t.callers[c.addr] == c {
		delete(t.callers, c.addr)
	}
	t.mu.Unlock()
}

func (c *caller) run(ctx context.Context) {
	conn, _, err := c.t.dial(ctx, c.addr, Call, want{})
	if err != nil {
		if ctx.Err() != nil {
			err = ErrClosed
		}
		c.fail = err
		c.t.forgetCaller(c)
		close(c.ready)
		return
	}
	close(c.ready)
	l := c.t.link(conn, c.out, Call)
	l.frame, l.busy = c.answered, c.busy
	err = l.run(ctx)
	c.t.forgetCaller(c)
	if ctx.Err() != nil {
		err = ErrClosed
	}
	c.end(err)
}

// end lets all callers go. Those that come later find the outbox retired.
func (c *caller) end(err error) {
	c.out.refuse(errRetired)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = errRetired
	for id, ch := range c.pending {
		ch <- answer{err: fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)}
		delete(c.pending, id)
	}
}

func (c *caller) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) > 0
}

// answered takes the frames of the other side.
func (c *caller) answered(kind byte, payload []byte) error {
	if kind != kindResponse {
		return fmt.Errorf("kind %d from the answering side: %w", kind, errBadFrame)
	}
	id, code, body, err := parseResponse(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	ch := c.pending[id]
	delete(c.pending, id)
	c.mu.Unlock()
	if ch == nil {
		return nil // given up meanwhile
	}
	if code != "" {
		ch <- answer{err: &CodedError{Code: code, Message: string(body)}}
		return nil
	}
	ch <- answer{body: bytes.Clone(body)}
	return nil
}

func (c *caller) call(ctx context.Context, method byte, body []byte) ([]byte, error) {
	r := request{method: method}
	if deadline, ok := ctx.Deadline(); ok {
		if r.left = time.Until(deadline); r.left <= 0 {
			return nil, context.DeadlineExceeded
		}
	}
	ch := make(chan answer, 1) // one answer at most: nobody waits to give it
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return nil, c.ended
	}
	c.last++
	r.id = c.last
	c.pending[r.id] = ch
	c.mu.Unlock()

	var head [requestHead]byte
	if err := c.out.pushTogether(kindRequest, r.head(head[:0]), body); err != nil {
		c.drop(r.id)
		return nil, err
	}
	select {
	case a := <-ch:
		return a.body, a.err
	case <-ctx.Done():
		c.drop(r.id)
		// A full queue only means that the other side works in vain.
		_ = c.out.push(kindCancel, request{id: r.id}.head(head[:0])[:8], nil, true)
		return nil, ctx.Err()
	}
}

func (c *caller) drop(id uint64) {
	c.mu.Lock()
	delete(c.pending, id)
	c.mu.Unlock()
}
