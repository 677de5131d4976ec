package load

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Options say how much load there is to be, and on what.
type Options struct {
	Targets []string      // host:port of everything that serves the shop
	Items   []string      // that can be bought
	Clients int           // each a session
	Think   time.Duration // pause of a client between two operations
	Within  time.Duration // how long an operation may take with its repeats
}

// maxReasons bounds how many kinds of failure are told apart.
const maxReasons = 12

// Load is a number of clients.
type Load struct {
	opts    Options
	clients []*client

	mu      sync.Mutex // guards phases, shown and reasons
	phases  []Phase
	shown   []Shown
	reasons map[string]int // of failed requests
}

// Shown is where a client's cart came from last.
type Shown struct {
	Owner, Instance, Member string
	Things                  int // in it; adds are not counted until the next read
}

// New prepares clients. It sends nothing.
func New(opts Options, phase string) *Load {
	l := &Load{opts: opts, phases: []Phase{{Name: phase}}, shown: make([]Shown, opts.Clients), reasons: map[string]int{}}
	run := rand.Text()
	for i := range opts.Clients {
		transport := &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}
		l.clients = append(l.clients, &client{
			name:    fmt.Sprintf("%s-%d", run, i),
			http:    &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
			targets: opts.Targets,
			next:    i,
			cookies: map[string]string{},
			ledger:  NewLedger(),
		})
	}
	return l
}

// Run lets all clients shop until ctx ends; each then finishes what it is at,
// within its time.
func (l *Load) Run(ctx context.Context) {
	var all sync.WaitGroup
	for i, c := range l.clients {
		all.Go(func() { l.shop(ctx, i, c) })
	}
	all.Wait()
}

// shop is the life of one client: it looks first, which brings it its cookie,
// then adds twice and looks once, through one address after the other.
func (l *Load) shop(ctx context.Context, i int, c *client) {
	work := context.WithoutCancel(ctx)
	for turn := 0; ctx.Err() == nil; turn++ {
		within, cancel := context.WithTimeout(work, l.opts.Within)
		look := turn%3 == 0 || len(c.cookies) == 0
		if look {
			l.note(i, c, true, c.read(within))
		} else {
			l.note(i, c, false, c.write(within, l.opts.Items[turn%len(l.opts.Items)]))
		}
		cancel()
		c.next++
		select {
		case <-ctx.Done():
		case <-time.After(l.opts.Think):
		}
	}
}

func (l *Load) note(i int, c *client, read bool, out outcome) {
	f := Figures{Requests: 1, Failed: len(out.failed), LongestGap: out.took}
	if out.err != nil {
		f.Requests, f.GivenUp = 0, 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, why := range out.failed {
		if _, known := l.reasons[why]; !known && len(l.reasons) >= maxReasons {
			why = "others"
		}
		l.reasons[why]++
	}
	phase := &l.phases[len(l.phases)-1]
	if read {
		phase.Reads.add(f)
	} else {
		phase.Writes.add(f)
	}
	things := 0
	for _, n := range c.last.Items {
		things += n
	}
	l.shown[i] = Shown{Owner: c.last.Owner, Instance: c.last.Instance, Member: c.last.Member, Things: things}
}

// Phase begins a phase: what ends from now on counts there.
func (l *Load) Phase(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phases = append(l.phases, Phase{Name: name})
}

// Shown returns where each client's cart came from last.
func (l *Load) Shown() []Shown {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Shown(nil), l.shown...)
}

// Done returns how many operations have succeeded in the present phase.
func (l *Load) Done() (reads, writes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.phases[len(l.phases)-1]
	return p.Reads.Requests, p.Writes.Requests
}

// Settle looks at every cart a last time, through every target that takes
// connections, and returns the account. It is for after Run.
func (l *Load) Settle(ctx context.Context) Report {
	l.Phase("last look")
	var (
		mu     sync.Mutex // guards report
		report = Report{Sessions: len(l.clients)}
		all    sync.WaitGroup
	)
	for i, c := range l.clients {
		all.Go(func() {
			seen := l.lookEverywhere(ctx, i, c)
			c.http.CloseIdleConnections()
			mu.Lock()
			defer mu.Unlock()
			if !seen {
				report.Unread++
			}
			report.Acknowledged += c.ledger.Acknowledged()
			report.Unknown += c.ledger.Unknown()
			report.Verdict = report.Verdict.Add(c.ledger.Verdict())
		})
	}
	all.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	report.Reasons = maps.Clone(l.reasons)
	report.Phases = append(report.Phases, l.phases...)
	return report
}

// lookEverywhere reads the cart once for each target; a target that is down is
// replaced by the next one.
func (l *Load) lookEverywhere(ctx context.Context, i int, c *client) bool {
	seen := false
	for range l.opts.Targets {
		within, cancel := context.WithTimeout(ctx, l.opts.Within)
		out := c.operate(within, http.MethodGet, "/cart.json", "")
		cancel()
		if out.err == nil {
			seen = true
			c.last = out.cart
			c.ledger.Session(out.cart.Session)
			c.ledger.Last(out.cart.Items)
		}
		l.note(i, c, true, out)
		c.next++
	}
	return seen
}
