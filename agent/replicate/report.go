package replicate

import (
	"slices"

	"github.com/rondel-project/rondel/agent/ring"
)

// holdsUp notes in this tick that a copy does not confirm what it was sent.
func (n *Node) holdsUp(who ring.Holder) {
	if !slices.Contains(n.slow, who) {
		n.slow = append(n.slow, who)
	}
}

// tickReport tells the leader of the members that hold up writes, or that
// cannot be reached, for as long as that lasts (W5, L11, L2b). One report has
// all of it: the leader takes the last one for the whole truth.
func (n *Node) tickReport() {
	if len(n.slow) > 0 && n.now.since(n.reportedAt) >= n.p.Resend {
		n.report()
	}
}

func (n *Node) report() {
	n.reportedAt = n.now.Mono
	r := &ring.Report{From: n.self, Slow: slices.Clone(n.slow)}
	for _, num := range sortedKeys(n.peers) {
		if p := n.peers[num]; p.badUntil > n.now.Mono && n.t.Member(num) != nil {
			r.Unreachable = append(r.Unreachable, ring.Unreachable{Who: n.holder(num), Refused: p.refused})
		}
	}
	n.out.Leader = append(n.out.Leader, r)
}
