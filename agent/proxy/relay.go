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
	c := x.c
	consumed := x.body.Done
	if x.side != nil {
		consumed = x.side.consumed.Load
	}
	keep = !x.q.Close && consumed() && !x.p.draining.Load()
	var body http1.Body
	body.Begin(x.resp.Framing, x.resp.Length, x.q.Minor == 0, keepTrailer)
	chunk := x.resp.Framing == http1.UntilClose && x.q.Minor > 0
	if x.q.Minor == 0 && (x.resp.Framing == http1.Chunked || x.resp.Framing == http1.UntilClose) {
		keep = false
	}
	reusable := !x.resp.Close
	out := x.appendResponse(c.out[:0], keep, chunk)
	x.up.Release()
	done := body.Done()
	var bodyErr error
	if !done && x.up.Buffered() > 0 {
		var piece []byte
		piece, done, bodyErr = body.Next(x.up, nil)
		out = appendPiece(out, piece, done, chunk)
	}
	c.out = out
	c.in.WriteWithin(time.Now(), x.snap.cfg.Timeouts.Body)
	if _, err := c.in.Write(out); err != nil {
		x.release(false)
		return false
	}
	x.status = x.resp.Status
	if bodyErr != nil {
		return x.broken(bodyErr)
	}
	if !done && !x.stream(&body, chunk) {
		return false
	}
	x.release(reusable)
	return keep && x.body.Done()
}

// stream passes the rest of a body on, each piece when it comes. On failure it
// ends the try.
func (x *exchange) stream(body *http1.Body, chunk bool) bool {
	c := x.c
	var big *[]byte
	defer func() {
		if big != nil {
			x.p.buffers.Put(big)
		}
	}()
	var space []byte
	for done := false; !done; {
		now := time.Now()
		if x.side == nil {
			x.up.ReadWithin(now, watchAfter)
		} else {
			x.up.ReadWithin(now, 0)
			if x.side.gone.Load() {
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
			if x.side == nil {
				x.side = startSide(x, false)
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
			c.in.WriteWithin(now, x.snap.cfg.Timeouts.Body)
			if _, err := c.in.Write(out); err != nil {
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
	if !x.side.left() {
		x.inst.failures.Add(1)
		x.p.log.Debug("response broke off", "instance", x.inst.ID, "addr", x.inst.Addr, "error", err)
	}
	x.release(false)
	x.c.in.Close()
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
