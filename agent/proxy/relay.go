package proxy

import (
	"errors"
	"os"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// relay passes the final response on and reports whether the client connection
// can carry another request.
func (x *exchange) relay() (keep bool) {
	if x.resp.Status == 101 {
		return x.upgrade()
	}
	err := x.respond()
	x.awaitKept()
	x.c.in.WriteWithin(time.Now(), x.snap.cfg.Timeouts.Body)
	if _, err := x.c.in.Write(x.c.out); err != nil {
		x.lostClient(err)
		x.release(false)
		return false
	}
	x.status = x.resp.Status
	if err != nil {
		return x.broken(err)
	}
	return x.stream() && x.relayed()
}

// flow is how a final response passes on.
type flow struct {
	body     http1.Body
	chunk    bool // its body is made chunks here
	keep     bool // the client connection may carry another request
	reusable bool // and the one to the instance too
}

// respond puts together what the client is written first: the head, and what
// has arrived of the body, whose error it returns.
func (x *exchange) respond() error {
	c, f := x.c, &x.flow
	consumed := x.body.Done
	if x.side != nil {
		consumed = x.side.consumed.Load
	}
	f.keep = !x.q.Close && consumed() && !x.p.draining.Load()
	f.body.Begin(x.resp.Framing, x.resp.Length, x.q.Minor == 0, keepTrailer)
	f.chunk = x.resp.Framing == http1.UntilClose && x.q.Minor > 0
	if x.q.Minor == 0 && (x.resp.Framing == http1.Chunked || x.resp.Framing == http1.UntilClose) {
		f.keep = false
	}
	f.reusable = !x.resp.Close
	c.out = x.appendResponse(c.out[:0], f.keep, f.chunk)
	x.note.heads += int64(len(c.out))
	if x.note.logged {
		x.note.first = time.Now()
	}
	x.up.Release()
	if f.body.Done() || x.up.Buffered() == 0 {
		return nil
	}
	piece, done, err := f.body.Next(x.up, nil)
	c.out = appendPiece(c.out, piece, done, f.chunk)
	return err
}

// relayed ends the try behind the last byte of its answer.
func (x *exchange) relayed() (keep bool) {
	x.well()
	x.release(x.flow.reusable)
	return x.flow.keep && x.body.Done()
}

// stream passes the rest of a body on, each piece when it comes. On failure it
// ends the try.
func (x *exchange) stream() bool {
	c, body, chunk := x.c, &x.flow.body, x.flow.chunk
	var big *[]byte
	defer func() {
		if big != nil {
			x.p.buffers.Put(big)
		}
	}()
	var space []byte
	for done := body.Done(); !done; {
		now := time.Now()
		if x.side == nil {
			x.up.ReadWithin(now, watchAfter)
		} else {
			x.up.ReadWithin(now, x.rt.Timeouts.Tunnel)
			if x.side.gone.Load() {
				x.note.end = endClient
				x.release(false)
				return false
			}
		}
		var piece []byte
		var err error
		piece, done, err = body.Next(x.up, space)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			switch {
			case x.side == nil:
				x.side = startSide(x, false)
			case !x.side.gone.Load() && time.Since(now) >= x.rt.Timeouts.Tunnel/2: // not interrupted
				return x.broken(err)
			}
			x.up.Resume()
			continue
		default:
			return x.broken(err)
		}
		out := piece
		if chunk {
			out = appendPiece(c.out[:0], piece, done, true)
			c.out = out
		}
		if len(out) > 0 {
			c.in.WriteWithin(time.Now(), x.snap.cfg.Timeouts.Body) // the piece may have been long in coming
			if _, err := c.in.Write(out); err != nil {
				x.lostClient(err)
				x.release(false)
				return false
			}
		}
		if big == nil && len(piece) >= upstreamBuffer/2 {
			big = x.p.buffers.Get().(*[]byte)
			space = *big
		}
	}
	return true
}

// broken ends a response whose body failed. The client sees it by the
// connection's end within the body.
func (x *exchange) broken(err error) bool {
	x.note.end = endClient
	if !x.side.left() {
		x.note.end = endInstance
		if errors.Is(err, os.ErrDeadlineExceeded) {
			x.note.end = endInstanceTimeout
		}
		if !x.calledOff(err) {
			x.fault("the answer broke off")
		}
		x.p.log.Debug("response broke off", "instance", x.inst.ID, "addr", x.inst.Addr, "error", err)
	}
	x.release(false)
	if !x.c.closeFor(err) {
		x.c.in.Close()
	}
	return false
}

// left reports whether the client is gone.
func (s *side) left() bool { return s != nil && s.gone.Load() }

// appendPiece adds a piece of a body, as a chunk if the body is chunked here.
func appendPiece(dst, piece []byte, last, chunk bool) []byte {
	if !chunk {
		return append(dst, piece...)
	}
	if len(piece) > 0 {
		dst = http1.AppendChunk(dst, piece)
	}
	if last {
		dst = append(dst, http1.LastChunk...)
	}
	return dst
}

// keepTrailer lets all response trailers pass but those that speak to the proxy.
func keepTrailer(name []byte) bool { return !ours(name) }
