package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcome says how a read or write of a session ended.
type Outcome uint8

// The outcomes. Unknown is a write that may or may not hold; Refused one that
// was not begun, or not found to be possible now.
const (
	OK Outcome = iota
	NotFound
	Conflict
	Refused
	Unknown
	outcomes
)

// String returns the label's value.
func (o Outcome) String() string {
	switch o {
	case OK:
		return "ok"
	case NotFound:
		return "not_found"
	case Conflict:
		return "conflict"
	case Refused:
		return "refused"
	}
	return "unknown"
}

// Sessions counts what is done with sessions through this agent.
type Sessions struct {
	writes, reads       [outcomes]prometheus.Counter
	writeTime, readTime prometheus.Histogram
}

func newSessions(r prometheus.Registerer) Sessions {
	s := Sessions{
		writeTime: histogram(r, "rondel_session_write_seconds",
			"Time from asking this agent for a write to the answer, wherever the owner is."),
		readTime: histogram(r, "rondel_session_read_seconds",
			"Time from asking this agent for a read to the answer, wherever the owner is."),
	}
	writes := counters(r, "rondel_session_writes_total", "Writes of sessions asked of this agent.", "outcome")
	reads := counters(r, "rondel_session_reads_total", "Reads of sessions asked of this agent.", "outcome")
	for o := range outcomes {
		s.writes[o] = writes.WithLabelValues(o.String())
		s.reads[o] = reads.WithLabelValues(o.String())
	}
	return s
}

// Wrote counts a write that took d.
func (s *Sessions) Wrote(o Outcome, d time.Duration) {
	s.writes[min(o, Unknown)].Inc()
	s.writeTime.Observe(d.Seconds())
}

// Read counts a read that took d.
func (s *Sessions) Read(o Outcome, d time.Duration) {
	s.reads[min(o, Unknown)].Inc()
	s.readTime.Observe(d.Seconds())
}
