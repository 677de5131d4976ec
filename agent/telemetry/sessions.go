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

// Sessions counts what is done with sessions.
type Sessions struct {
	Divergence    prometheus.Counter // in-sync copies that differed; must stay 0
	MergeConflict prometheus.Counter

	writes, reads       [outcomes]prometheus.Counter
	writeTime, openTime prometheus.Histogram
}

func newSessions(r prometheus.Registerer) Sessions {
	s := Sessions{
		Divergence: counter(r, "rondel_insync_divergence_total",
			"In-sync copies of a session that were found to differ. Anything but 0 is a bug or damaged memory."),
		MergeConflict: counter(r, "rondel_merge_conflict_total",
			"Attributes that both sides of a partition had changed."),
		writeTime: histogram(r, "rondel_session_write_seconds",
			"Time from accepting a write at its owner to the answer."),
		openTime: histogram(r, "rondel_session_activation_seconds",
			"Time from a change of ownership to the slot being open again."),
	}
	writes := counters(r, "rondel_session_writes_total", "Writes of sessions at their owner.", "outcome")
	reads := counters(r, "rondel_session_reads_total", "Reads of sessions at their owner.", "outcome")
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

// Read counts a read.
func (s *Sessions) Read(o Outcome) { s.reads[min(o, Unknown)].Inc() }

// Activated notes how long a slot was closed for a change of ownership.
func (s *Sessions) Activated(d time.Duration) { s.openTime.Observe(d.Seconds()) }
