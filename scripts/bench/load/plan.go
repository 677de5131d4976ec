package load

import (
	"errors"
	"maps"
	"time"
)

// NameLen is the length of an instance's name, with which its bodies begin.
const NameLen = 4

// Plan is one load.
type Plan struct {
	Addr    string // of the proxy
	Path    string
	Conns   int
	Threads int
	For     time.Duration
	// Clients are whose requests are sent. None: each request is a new client's.
	Clients []Client
	// Shared has every connection carry all clients' requests in turn, as behind
	// another proxy; otherwise a connection is one client's.
	Shared bool
	Close  bool // a connection for each request
	TLS    bool
}

// Client is a client as a proxy sees it.
type Client struct {
	Cookie string // the value of the Cookie field
	Want   string // the name of the instance that it belongs to; empty: any
}

// Tally is what came of a plan.
type Tally struct {
	Requests  int // answered as they must be
	Took      time.Duration
	Latencies Histogram
	Errors    map[string]int // by kind
}

// Add adds another thread's tally to t.
func (t *Tally) Add(o *Tally) {
	t.Requests += o.Requests
	t.Took = max(t.Took, o.Took)
	t.Latencies.Add(&o.Latencies)
	for kind, n := range o.Errors {
		t.fail(kind, n)
	}
}

// Failed is how many requests failed.
func (t *Tally) Failed() (n int) {
	for v := range maps.Values(t.Errors) {
		n += v
	}
	return n
}

func (t *Tally) fail(kind string, n int) {
	if t.Errors == nil {
		t.Errors = map[string]int{}
	}
	t.Errors[kind] += n
}

// tooMany errors end a run: its figures mean nothing any more.
const tooMany = 10_000

// silence is how long nothing at all may come before a run is given up.
const silence = 5 * time.Second

// Run carries a plan out.
func Run(p Plan) (*Tally, error) {
	if p.Conns < 1 || p.Threads < 1 || p.For <= 0 {
		return nil, errors.New("a load needs connections, threads and time")
	}
	run := runPlain
	if p.TLS {
		run = runTLS
	}
	type share struct {
		tally *Tally
		err   error
	}
	shares := make(chan share, p.Threads)
	for i := range p.Threads {
		go func() {
			t, err := run(&p, i)
			shares <- share{t, err}
		}()
	}
	sum := &Tally{}
	var errs []error
	for range p.Threads {
		s := <-shares
		if s.err != nil {
			errs = append(errs, s.err)
			continue
		}
		sum.Add(s.tally)
	}
	return sum, errors.Join(errs...)
}

// requests makes the requests of one thread.
type requests struct {
	plan       *Plan
	head, tail string
	next       int
}

func newRequests(p *Plan, thread int) *requests {
	r := &requests{plan: p, head: "GET " + p.Path + " HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n", tail: "\r\n"}
	if p.Close {
		r.tail = "Connection: close\r\n\r\n"
	}
	if n := len(p.Clients); n > 0 {
		r.next = thread * n / p.Threads
	}
	return r
}

// appendTo appends the next request of a connection, and tells which instance must
// answer it.
func (r *requests) appendTo(b []byte, conn int) (request []byte, want string) {
	b = append(b, r.head...)
	if n := len(r.plan.Clients); n > 0 {
		c := &r.plan.Clients[conn%n]
		if r.plan.Shared {
			c = &r.plan.Clients[r.next]
			if r.next++; r.next == n {
				r.next = 0
			}
		}
		b = append(b, "Cookie: "...)
		b = append(b, c.Cookie...)
		b = append(b, "\r\n"...)
		want = c.Want
	}
	return append(b, r.tail...), want
}

// share is which connections a thread has: from, up to but without to.
func (p *Plan) share(thread int) (from, to int) {
	return thread * p.Conns / p.Threads, (thread + 1) * p.Conns / p.Threads
}
