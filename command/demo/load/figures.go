package load

import "time"

// Figures count one kind of request in one phase.
type Figures struct {
	Requests int // answered as they should be
	Failed   int // answered with an error, or broken off after they were sent
	GivenUp  int // operations that did not succeed within their time, with all repeats

	// LongestGap is the longest time that one operation took with its repeats:
	// what the person who clicked would have waited.
	LongestGap time.Duration
}

func (f *Figures) add(o Figures) {
	f.Requests += o.Requests
	f.Failed += o.Failed
	f.GivenUp += o.GivenUp
	f.LongestGap = max(f.LongestGap, o.LongestGap)
}

// Phase is a stretch of the load between two events.
type Phase struct {
	Name   string
	Reads  Figures
	Writes Figures
}

// Report is what a load came to.
type Report struct {
	Sessions     int
	Acknowledged int // writes
	Unknown      int // writes that may have happened or not
	Verdict      Verdict
	Phases       []Phase
	Reasons      map[string]int // of failed requests
	Unread       int            // sessions whose cart could not be read in the end
}

// Reads sums over the phases.
func (r Report) Reads() Figures { return r.sum(func(p Phase) Figures { return p.Reads }) }

// Writes sums over the phases.
func (r Report) Writes() Figures { return r.sum(func(p Phase) Figures { return p.Writes }) }

func (r Report) sum(of func(Phase) Figures) Figures {
	var f Figures
	for _, p := range r.Phases {
		f.add(of(p))
	}
	return f
}

// Clean reports whether nothing was lost and nothing happened twice.
func (r Report) Clean() bool {
	v := r.Verdict
	return v.SessionsLost == 0 && v.WritesLost == 0 && v.AppliedTwice == 0 && r.Unread == 0
}
