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

// upgrade passes a 101 on, if it is one that was asked for, and then bytes
// both ways until both sides have ended.
func (x *exchange) upgrade() (keep bool) {
	if !x.passUpgrade() || !x.sameProtocol() {
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
	c.in.WriteWithin(time.Now(), x.snap.cfg.Timeouts.Body)
	if _, err := c.in.Write(out); err == nil {
		x.status = http.StatusSwitchingProtocols
		x.count()
		x.well()
		x.tunnel()
	}
	x.release(false)
	c.in.Close()
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

// tunnel passes bytes both ways. One side's end is passed on as such, and the
// other direction goes on.
func (x *exchange) tunnel() {
	in, up := x.c.in, x.up
	in.Release()
	up.Release()
	in.Resume()
	up.Resume()
	var last atomic.Int64 // when anything passed, in unix nanoseconds
	last.Store(time.Now().UnixNano())
	t := &x.snap.cfg.Timeouts
	done := make(chan struct{})
	go func() {
		defer close(done)
		oneWay(up, in, t, &last)
	}()
	oneWay(in, up, t, &last)
	<-done
}

// oneWay passes bytes from src to dst until src ends. Anything but a clean end
// ends both directions.
func oneWay(dst, src *http1.Conn, t *Timeouts, last *atomic.Int64) {
	for {
		now := time.Now()
		if n := src.Buffered(); n > 0 {
			last.Store(now.UnixNano())
			dst.WriteWithin(now, t.Body)
			if _, err := dst.Write(src.Peek()); err != nil {
				break
			}
			src.Discard(n)
		}
		src.ReadWithin(now, t.Tunnel)
		err := src.Fill()
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			if dst.CloseWrite() == nil {
				return
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			// The other direction may be the busy one.
			if time.Since(time.Unix(0, last.Load())) < t.Tunnel*3/4 {
				continue
			}
		}
		break
	}
	dst.Close()
	src.Close()
}
