package replicate

import "github.com/rondel-project/rondel/agent/ring"

// Queues are the lengths of a core's longest queues, each against the bound
// that it has in Params: what waits costs memory for as long as others are slow.
type Queues struct {
	Waiting int // requests for one slot that opens, one session that ends or is asked for, this member's awakening
	Queued  int // writes behind the one under way of a session
	Shared  int // repetitions of one operation
	Bulk    int64
	Commits int // records on their way to the copies while a slot opens
	Filling int // slots
	Told    int // uses whose answers wait for copies to hear of them
}

// Queues measures. It looks at everything that waits: it is for checks.
func (n *Node) Queues() Queues {
	q := Queues{Waiting: len(n.wakeup.waiting), Filling: n.syncing, Told: len(n.telling.waiting)}
	for _, p := range n.peers {
		q.Bulk = max(q.Bulk, p.bulk.inFlight)
	}
	for h := range ring.Slot(ring.Slots) {
		sl := &n.slots[h]
		q.Waiting = max(q.Waiting, len(sl.waiting))
		if sl.act != nil {
			q.Commits = max(q.Commits, sl.act.flying)
		}
		if sl.det != nil {
			for _, s := range sl.det.byID {
				q.Waiting = max(q.Waiting, len(s.waiting))
			}
		}
		for _, s := range sl.returned {
			q.Waiting = max(q.Waiting, len(s.waiting))
		}
		for _, w := range sl.writes {
			q.Waiting, q.Queued, q.Shared = max(q.Waiting, len(w.after)), max(q.Queued, len(w.queue)), max(q.Shared, len(w.sharers))
			for _, o := range w.queue {
				q.Shared = max(q.Shared, len(o.same))
			}
		}
	}
	return q
}

// Exceeded names the first queue that is longer than its bound; "" where none
// is. One record may be sent to a peer beyond the bulk window: it may be larger
// than that.
func (q Queues) Exceeded(p Params, largest int64) string {
	switch {
	case q.Waiting > p.MaxWaiting:
		return "waiting requests"
	case q.Queued > p.MaxQueue:
		return "queued writes"
	case q.Shared > p.MaxWaiting:
		return "repetitions of an operation"
	case q.Bulk > p.BulkWindow+largest:
		return "bytes in flight"
	case q.Commits > commitsAtOnce:
		return "records in flight to an opening slot"
	case q.Told > maxTouches:
		return "uses to be told"
	case q.Filling > p.SyncSlots:
		return "slots being filled"
	}
	return ""
}
