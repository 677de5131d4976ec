package proxy

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/rondel-project/rondel/agent/accesslog"
	"github.com/rondel-project/rondel/agent/http1"
)

// statusClientGone is what logs say of a client that left before an answer.
const statusClientGone = 499

// noted is what nobody wants to know of an exchange but the access log.
type noted struct {
	logged  bool // somebody wants to know
	end     ending
	inst    *instance     // that was asked last, or could not be
	head    time.Duration // that the request's head took to come
	queued  time.Duration // that it waited for an instance to have room
	dialed  time.Duration // that connections took to be made
	first   time.Time     // when the answer's head had come
	inFrom  int64         // bytes of the client connection before it
	outFrom int64
	heads   int64            // bytes sent that are no body
	kept    *accesslog.Entry // of a tunnel, as far as it was known when that began
}

// note begins the notes on the request that c has read.
func (c *conn) note() noted {
	n := noted{logged: c.p.access.On(), inFrom: c.inFrom, outFrom: c.outFrom}
	if n.logged {
		if since := c.in.HeadSince(); !since.IsZero() {
			n.head = time.Since(since)
		}
	}
	return n
}

// finish is the end of every exchange, however it ended, and wherever it was
// carried: the observer and the access log hear of it. Nothing may work for
// the exchange any more. One that goes on as a tunnel has not ended.
func (x *exchange) finish() {
	if x.switched {
		return
	}
	x.observed()
	x.observer().Passed(x.c.in.Consumed()-x.note.inFrom, x.c.in.Sent()-x.note.outFrom)
	if x.note.queued > 0 {
		x.observer().Queued(x.note.queued)
	}
	if x.note.logged {
		x.log()
	}
}

// observed tells the observer of the request's end, once.
func (x *exchange) observed() {
	if !x.counted {
		x.counted = true
		x.observer().Done(x.status, time.Since(x.began))
	}
}

func (x *exchange) observer() Observer {
	if x.rt == nil {
		return x.p.unrouted
	}
	return x.rt.observer
}

// lostClient notes that the client could not be written to.
func (x *exchange) lostClient(err error) {
	x.note.end = endClient
	if errors.Is(err, os.ErrDeadlineExceeded) {
		x.note.end = endClientTimeout
	}
}

// log writes the exchange's line.
func (x *exchange) log() {
	n, c, e := &x.note, x.c, x.note.kept
	if e == nil {
		now := x.entry()
		e = &now
	}
	e.In, e.Out = c.in.Consumed()-n.inFrom, c.in.Sent()-n.outFrom
	e.Body = e.Out - n.heads
	e.Total = time.Since(e.Time)
	if n.end != endDone && c.aborted() {
		n.end = endStopped
	}
	if e.Status == 0 && n.end == endClient {
		e.Status = statusClientGone
	}
	e.End = n.end.String()
	c.p.access.Write(e)
}

// entry is what is known of the exchange before its end. It is good for as long
// as the request's head is.
func (x *exchange) entry() accesslog.Entry {
	n, c, q := &x.note, x.c, x.q
	e := accesslog.Entry{
		Time: x.began.Add(-n.head), Client: x.origin.client, Scheme: "http", Method: q.Method, Host: q.Host, Target: q.Target,
		Protocol: c.protocol(q), Status: x.status,
		RequestID: x.reqID[:], Tries: x.tries, Why: x.choose.why.String(),
		Head: n.head, Queue: n.queued, Connect: n.dialed, First: -1,
	}
	for i := range q.Fields.Fields {
		switch f := &q.Fields.Fields[i]; {
		case f.Known != http1.Other:
		case len(f.Name) == 7 && http1.EqualFold(f.Name, "referer"):
			e.Referer = f.Value
		case len(f.Name) == 10 && http1.EqualFold(f.Name, "user-agent"):
			e.UserAgent = f.Value
		}
	}
	if len(e.Client) == 0 {
		e.Client, x.origin.https = c.peer.text, c.peer.https
	}
	if x.origin.https {
		e.Scheme = "https"
	}
	e.Secrets = [2]string{tokenParam, tokenParam}
	if x.rt != nil {
		e.Route, e.Service = x.rt.Name, x.rt.Service
		if x.rt.Sticky.LearnQuery != "" {
			e.Secrets[1] = x.rt.Sticky.LearnQuery
		}
	}
	if n.inst != nil {
		e.Instance, e.Member = n.inst.ID, string(n.inst.Member)
	}
	if !n.first.IsZero() {
		e.First = n.first.Sub(x.began)
	}
	return e
}

// keep makes the entry last without the request's head: a tunnel may be open for
// days, and its buffers are of use elsewhere.
func (x *exchange) keep() *accesslog.Entry {
	e := x.entry()
	parts := [...]*[]byte{&e.Client, &e.Method, &e.Host, &e.Target, &e.Referer, &e.UserAgent, &e.RequestID}
	size := 0
	for _, p := range parts {
		size += len(*p)
	}
	text := make([]byte, 0, size)
	for _, p := range parts {
		at := len(text)
		text = append(text, *p...)
		*p = text[at:len(text):len(text)]
	}
	return &e
}

// protocol names what the client speaks.
func (c *conn) protocol(q *http1.Request) string {
	switch {
	case c.peer.protocol != "":
		return c.peer.protocol
	case q.Minor == 0:
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}

// noteRefused tells of a request that could not be read.
func (c *conn) noteRefused(status int) {
	c.p.unrouted.Done(status, 0)
	if !c.p.access.On() {
		return
	}
	now := time.Now()
	e := accesslog.Entry{
		Time: now, Client: c.peer.text, Scheme: "http", Status: status, In: c.in.Consumed() + int64(c.in.Buffered()) - c.inFrom,
		Out: c.in.Sent() - c.outFrom, First: -1, End: endRefused.String(),
	}
	if c.peer.https {
		e.Scheme = "https"
	}
	if status == http.StatusRequestTimeout {
		e.End = endClientTimeout.String()
	}
	if since := c.in.HeadSince(); !since.IsZero() {
		e.Time = since
		e.Head = now.Sub(since)
		e.Total = e.Head
	}
	c.p.access.Write(&e)
}
