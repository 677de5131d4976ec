package agent

import (
	"errors"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

const (
	// relayAfter is how long a member hears nothing straight from the leader
	// until it asks through another one: two Renews, well within a lease.
	relayAfter = 650 * time.Millisecond
	// routeFor is how long the leader answers by the way that a member came.
	routeFor = 2 * time.Second
)

// ways tells how an agent and the leader reach each other: straight, or through
// one other member where the link between them is broken (N2). A link that is
// broken one way carries nothing the other way either, as far as new connections
// go.
type ways struct {
	mu sync.Mutex // guards all below

	leader  member.ID
	direct  time.Time // when the leader last answered straight
	granted time.Time // when it last answered at all
	via     member.ID // through whom
	turn    int
	odd     bool // the last Renew went through another member

	routes map[member.ID]route // of members, while this agent leads
}

type route struct {
	via member.ID
	at  time.Time
}

// out says whether a message to the leader goes straight, and through whom it
// goes as well or instead; "" is through nobody. Renews go the one way and the
// other in turn, so that the answer shows which one works.
func (w *ways) out(now time.Time, leader member.ID, renew bool, others []member.ID) (straight bool, via member.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leader != leader {
		w.leader, w.direct, w.granted, w.odd = leader, now, now, false
	}
	if now.Sub(w.direct) < relayAfter || len(others) == 0 {
		return true, ""
	}
	if renew {
		if w.odd = !w.odd; !w.odd {
			return true, ""
		}
		if now.Sub(w.granted) >= relayAfter {
			w.turn++ // that one does not reach it either
			w.via = others[w.turn%len(others)]
		}
	}
	return !renew, w.via
}

// answered notes that the leader has granted something.
func (w *ways) answered(now time.Time, straight bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.granted = now
	if straight {
		w.direct = now
	}
}

// came notes by which way a member asked the leader; "" is straight.
func (w *ways) came(now time.Time, from, via member.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if via == "" {
		delete(w.routes, from)
		return
	}
	if w.routes == nil {
		w.routes = map[member.ID]route{}
	}
	w.routes[from] = route{via, now}
}

// back returns through whom to answer a member; "" is straight.
func (w *ways) back(now time.Time, to member.ID) member.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.routes[to]
	if ok && now.Sub(r.at) > routeFor {
		delete(w.routes, to)
		return ""
	}
	return r.via
}

// errRelayed means that a relayed message is not one.
var errRelayed = errors.New("malformed relayed message")

const relayVersion = 1

// appendRelayed appends a control message with whom it is from and for.
func appendRelayed(b []byte, from, to member.ID, payload []byte) []byte {
	f, t := from.Bytes(), to.Bytes()
	b = append(append(append(b, relayVersion), f[:]...), t[:]...)
	return append(b, payload...)
}

// decodeRelayed is the inverse; payload shares memory with b.
func decodeRelayed(b []byte) (from, to member.ID, payload []byte, err error) {
	if len(b) < 1+16+16 || b[0] != relayVersion {
		return "", "", nil, errRelayed
	}
	return member.IDFromBytes([16]byte(b[1:17])), member.IDFromBytes([16]byte(b[17:33])), b[33:], nil
}
