package load

// Verdict is what an account has found wrong.
type Verdict struct {
	SessionsLost int
	WritesLost   int // acknowledged ones
	AppliedTwice int
	StaleReads   int // showed less than was acknowledged, and later was right again
}

// Add sums verdicts.
func (v Verdict) Add(o Verdict) Verdict {
	return Verdict{v.SessionsLost + o.SessionsLost, v.WritesLost + o.WritesLost, v.AppliedTwice + o.AppliedTwice, v.StaleReads + o.StaleReads}
}

// counter is what is known of one counter that one client alone adds to.
type counter struct {
	known   int // the value after the last acknowledged write
	unknown int // later or earlier writes that may still show: sent, never acknowledged
}

// Ledger is the account of one session. Its client makes one write at a time.
type Ledger struct {
	session string
	items   map[string]*counter
	verdict Verdict
	acked   int
}

// NewLedger returns an empty account.
func NewLedger() *Ledger { return &Ledger{items: map[string]*counter{}} }

// Acknowledged returns how many writes were.
func (l *Ledger) Acknowledged() int { return l.acked }

// Unknown returns how many writes may have happened or not.
func (l *Ledger) Unknown() int {
	n := 0
	for _, c := range l.items {
		n += c.unknown
	}
	return n
}

// Verdict returns what was found so far.
func (l *Ledger) Verdict() Verdict { return l.verdict }

// Session notes the session that an answer came from. Another one than before
// means that the cluster no longer knows the first, with all that was in it.
func (l *Ledger) Session(session string) {
	if session == l.session {
		return
	}
	if l.session != "" {
		l.verdict.SessionsLost++
		for _, c := range l.items {
			l.verdict.WritesLost += c.known
		}
		clear(l.items)
	}
	l.session = session
}

func (l *Ledger) counter(item string) *counter {
	c := l.items[item]
	if c == nil {
		c = &counter{}
		l.items[item] = c
	}
	return c
}

// Acked notes that a write was acknowledged with the value it led to.
func (l *Ledger) Acked(item string, value int) {
	l.acked++
	c := l.counter(item)
	c.known++ // now what it must be at least
	l.settle(c, value, true)
}

// Unacknowledged notes a write whose outcome nobody told.
func (l *Ledger) Unacknowledged(item string) { l.counter(item).unknown++ }

// Read notes what a read of the whole cart showed. A value that is too low is
// an old one: only a later write or the last look can tell whether it is lost.
func (l *Ledger) Read(items map[string]int) { l.look(items, false) }

// Last notes what the cart shows when all is quiet: what is not there is lost.
func (l *Ledger) Last(items map[string]int) { l.look(items, true) }

func (l *Ledger) look(items map[string]int, last bool) {
	for item := range items {
		l.counter(item)
	}
	for item, c := range l.items {
		l.settle(c, items[item], last)
	}
}

// settle compares a value with what it may be. certain means that a low value
// is not merely old.
func (l *Ledger) settle(c *counter, value int, certain bool) {
	switch {
	case value < c.known && !certain:
		l.verdict.StaleReads++
		return
	case value < c.known:
		l.verdict.WritesLost += c.known - value
	case value <= c.known+c.unknown:
		c.unknown -= value - c.known
	default:
		l.verdict.AppliedTwice += value - c.known - c.unknown
		c.unknown = 0
	}
	c.known = value
}
