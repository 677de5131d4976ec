package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// upgrade passes a 101 on, if it is one that was asked for. The tunnel that
// follows begins once nothing else of the exchange is under way.
func (x *exchange) upgrade() (keep bool) {
	if !x.passUpgrade() || !x.sameProtocol() {
		x.note.end = endInvalid
		x.fault("it switched protocols unasked")
		x.p.log.Warn("instance switched protocols unasked", "instance", x.inst.ID, "addr", x.inst.Addr)
		x.release(false)
		return x.answer(http.StatusBadGateway, "the instance switched protocols unasked")
	}
	c := x.c
	if x.side != nil {
		gone := x.side.left()
		x.side.end(x)
		x.side = nil
		if gone {
			x.note.end = endClient
			x.release(false)
			return false
		}
	}
	out, session := x.appendFields(x.appendStatus(c.out[:0]))
	out = x.appendBinding(out, session)
	out = appendField(out, "Rondel-Request-Id", x.reqID[:])
	out = append(out, "Connection: Upgrade\r\n"...)
	out = appendField(out, "Upgrade", x.q.Protocol)
	out = append(out, "\r\n"...)
	c.out = out
	x.awaitKept()
	if x.note.logged {
		x.note.first = time.Now()
	}
	x.note.heads += int64(len(out))
	c.in.WriteWithin(time.Now(), x.snap.cfg.Timeouts.Body)
	if _, err := c.in.Write(out); err == nil {
		x.status = http.StatusSwitchingProtocols
		x.observed()
		x.well()
		x.switched = true
		return false
	} else {
		x.lostClient(err)
	}
	x.release(false)
	c.in.Close()
	return false
}

// tunnel passes bytes both ways until both sides have ended: in an event loop, if
// both can be held there, which it reports. Else it BLOCKS until then.
func (c *conn) tunnel() (inLoop bool) {
	x := &c.x
	x.switched = false
	if x.note.logged {
		x.note.kept = x.keep()
	}
	if c.p.loops.tunnel(x) {
		return true
	}
	x.tunnel()
	x.release(false)
	c.in.Close()
	x.finish()
	return false
}

// sameProtocol reports whether the 101 names the protocol that was asked for.
func (x *exchange) sameProtocol() bool {
	same := false
	for i := range x.resp.Fields.Fields {
		f := &x.resp.Fields.Fields[i]
		if f.Known == http1.Upgrade {
			same = len(f.Value) == len(x.q.Protocol) && equalFold(f.Value, x.q.Protocol)
		}
	}
	return same && x.resp.UpgradeAsk
}

func equalFold(a, b []byte) bool {
	for i := range a {
		x, y := a[i], b[i]
		if x >= 'A' && x <= 'Z' {
			x |= 0x20
		}
		if y >= 'A' && y <= 'Z' {
			y |= 0x20
		}
		if x != y {
			return false
		}
	}
	return true
}

// tunnel passes bytes both ways, in two goroutines. One side's end is passed on
// as such, and the other direction goes on.
func (x *exchange) tunnel() {
	in, up := x.c.in, x.up
	in.Release()
	up.Release()
	in.Resume()
	up.Resume()
	var last atomic.Int64 // when anything passed, in unix nanoseconds
	last.Store(time.Now().UnixNano())
	t := x.snap.cfg.Timeouts
	t.Tunnel = x.rt.Timeouts.Tunnel
	var first atomic.Uint32 // the end that came first, from 1 on
	end := func(e ending) { first.CompareAndSwap(0, uint32(e)) }
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.p.oneWay(up, in, &t, &last, end)
	}()
	x.p.oneWay(in, up, &t, &last, func(e ending) { end(e.mirrored()) })
	<-done
	x.note.end = ending(first.Load())
}

// mirrored returns the same end with client and instance exchanged.
func (e ending) mirrored() ending {
	switch e {
	case endClient:
		return endInstance
	case endInstance:
		return endClient
	}
	return e
}

const (
	// fewBytes is how much a side of a tunnel is read by while not much comes: it
	// is all that a tunnel holds while it waits.
	fewBytes = 512
	// hurries is for how long more is expected from a side that said more than that.
	hurries = time.Second
)

// oneWay passes bytes from src to dst until src ends. Anything but a clean end
// ends both directions. It says why as if src were the client, before it ends
// anything.
func (p *Proxy) oneWay(dst, src *http1.Conn, t *Timeouts, last *atomic.Int64, say func(ending)) {
	few := make([]byte, fewBytes)
	var big *[]byte // while much comes
	defer func() {
		if big != nil {
			src.Strip()
			p.buffers.Put(big)
		}
	}()
	for begun := false; ; begun = true {
		now, wait := time.Now(), t.Tunnel
		n := src.Buffered()
		if n > 0 {
			last.Store(now.UnixNano())
			dst.WriteWithin(now, t.Body)
			if _, err := dst.Write(src.Peek()); err != nil {
				say(endInstance)
				break
			}
			src.Discard(n)
		}
		switch {
		case big == nil && n >= fewBytes:
			big = p.buffers.Get().(*[]byte)
			src.Strip()
			src.Lend(*big)
		case !begun: // what was read ahead, or nothing
			src.Strip()
			src.Lend(few)
		}
		if big != nil {
			wait = min(wait, hurries)
		}
		src.ReadWithin(now, wait)
		err := src.Fill()
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			say(endClient)
			if dst.CloseWrite() == nil {
				return
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			if big != nil {
				src.Strip()
				src.Lend(few)
				p.buffers.Put(big)
				big = nil
				continue
			}
			// The other direction may be the busy one.
			if time.Since(time.Unix(0, last.Load())) < t.Tunnel*3/4 {
				continue
			}
			say(endIdle)
		default:
			say(endClient)
		}
		break
	}
	dst.Close()
	src.Close()
}
