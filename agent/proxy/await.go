package proxy

import (
	"errors"
	"os"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

const (
	// watchAfter is how long an instance may take before somebody watches
	// whether the client is still there. Quick answers do without.
	watchAfter = 100 * time.Millisecond
	// maxInterim bounds 1xx responses before the final one.
	maxInterim = 64
)

// await reads response heads until the final one, passing interim ones on.
func (x *exchange) await(sent time.Time) outcome {
	t := &x.snap.cfg.Timeouts
	wait := watchAfter
	if x.expects {
		wait = t.Continue
	}
	x.up.ReadWithin(sent, wait)
	interim := 0
	for {
		if o := x.side.verdict(); o != answered {
			return o
		}
		head, err := x.up.ReadHead(http1.Limits{Head: x.snap.cfg.Limits.ResponseHead})
		switch {
		case err == nil:
			x.heard = true
			if err := x.resp.Parse(head, x.q.Method); err != nil {
				return x.nonsense(err)
			}
			if x.resp.Status >= 200 || x.resp.Status == 101 {
				return answered
			}
			if interim++; interim > maxInterim {
				return x.nonsense(errTooManyInterim)
			}
			if !x.interim() {
				return hungUp
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			if o := x.side.verdict(); o != answered {
				return o
			}
			if !x.patience(sent) {
				return timedOut
			}
		default:
			x.heard = x.heard || x.up.Buffered() > 0
			x.spared(err)
			var bad *http1.Error
			if errors.As(err, &bad) {
				return x.nonsense(err)
			}
			return failed
		}
	}
}

var errTooManyInterim = errors.New("too many interim responses")

// nonsense notes a response that is of no use, and would be of none elsewhere.
func (x *exchange) nonsense(err error) outcome {
	x.heard, x.malformed = true, true
	x.p.log.Warn("response refused", "instance", x.inst.ID, "addr", x.inst.Addr,
		"limit", x.snap.cfg.Limits.ResponseHead, "error", err)
	return failed
}

// patience is called each time that the instance was silent for as long as it
// had been given. It sees to what can be done meanwhile and gives more time, or
// reports that there is no more.
func (x *exchange) patience(sent time.Time) bool {
	if x.expects {
		// It does not know about expectations: clients send the body then,
		// and those that wait for a 100 get ours.
		x.expects = false
		if x.c.in.Buffered() == 0 {
			x.sayContinue()
		}
		x.side = startSide(x, true)
	}
	if x.side == nil {
		x.side = startSide(x, false)
	}
	now := time.Now()
	limit := x.rt.Timeouts.Response
	left := limit
	if done := x.side.finished.Load(); done != 0 {
		since := time.Unix(0, done)
		if since.Before(sent) {
			since = sent
		}
		left = limit - now.Sub(since)
	}
	if left <= 0 {
		return false
	}
	x.up.Resume()
	x.up.ReadWithin(now, left)
	return true
}

func (x *exchange) sayContinue() {
	x.hundred, x.told = true, true
	x.c.in.WriteWithin(time.Now(), x.snap.cfg.Timeouts.Body)
	n, _ := x.c.in.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) // a broken client shows when its body is read
	x.note.heads += int64(n)
}

// interim passes a 1xx on, and lets a body go that was waiting for it. It
// reports whether the client is still there.
func (x *exchange) interim() bool {
	isHundred := x.resp.Status == 100
	if x.q.Minor > 0 && !(isHundred && x.hundred) {
		x.hundred = x.hundred || isHundred
		x.told = true
		c := x.c
		c.out = x.appendInterim(c.out[:0])
		x.note.heads += int64(len(c.out))
		c.in.WriteWithin(time.Now(), x.snap.cfg.Timeouts.Body)
		if _, err := c.in.Write(c.out); err != nil {
			return false
		}
	}
	if isHundred && x.expects {
		x.expects = false
		x.side = startSide(x, true)
	}
	return true
}
