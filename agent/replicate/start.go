package replicate

import "github.com/rondel-project/rondel/agent/session"

// Waiter takes the answer to a request that was started. It is called once,
// outside the engine's lock, by whatever goroutine the answer came to; it must
// not block.
type Waiter interface{ Answered(*session.Response) }

// completion is an answer that has yet to be handed over.
type completion struct {
	to   Waiter
	resp *session.Response
}

// Start begins one request, as Do does, and hands the answer to w within
// Params.OpBudget: before it returns, where this member can answer at once. What
// it has to ask other members goes out with the next Flush, which is the
// caller's to call.
func (e *Engine) Start(req *session.Request, w Waiter) {
	e.stepBuffered(func(now Time, out *Out) {
		e.last++
		e.waiting[e.last] = w
		e.node.Request(now, e.last, req, out)
	}, false)
}

// handOver calls those whose answers the last step has brought. It takes the
// lock's release over from the caller.
func (e *Engine) handOver() {
	done := e.done
	if len(done) == 0 {
		e.mu.Unlock()
		return
	}
	e.done, e.spare = e.spare[:0], nil
	e.mu.Unlock()
	for _, c := range done {
		c.to.Answered(c.resp)
	}
	clear(done)
	e.mu.Lock()
	if cap(done) > cap(e.spare) {
		e.spare = done[:0]
	}
	e.mu.Unlock()
}

// mailbox is the Waiter of Do. It has room for one answer, so that it can be
// handed over under the lock.
type mailbox chan *session.Response

// Answered implements Waiter.
func (m mailbox) Answered(r *session.Response) { m <- r }
