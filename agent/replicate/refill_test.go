package replicate

import (
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// large is a session's size; the rate and the window are made as much smaller as
// that is, so that there is less to copy.
const large = 16 << 10

// refilling is a trio whose third member has lost a slot of many large sessions,
// and what it is sent on the lane for that.
func refilling(t *testing.T, sessions int) (c *trio, sent *int) {
	t.Helper()
	c = newTrio(t, false)
	p := &c.nodes[1].p
	p.BulkRate, p.BulkWindow = p.BulkRate/16, p.BulkWindow/16
	for range sessions {
		c.create(0, session.Attr{Name: "v", Value: []byte(strings.Repeat("x", large))})
	}
	c.nodes[3].store.Clear(0)
	sent = new(int)
	c.seen = func(e envelope) {
		if m, ok := e.msg.(*Replicate); ok && e.to.Num == 3 && e.bulk {
			for range m.Updates {
				*sent += large
			}
		}
	}
	c.learn(0, 3)
	return c, sent
}

// A member that lost its copies gets them at a bounded rate, on a lane of their
// own; writes meanwhile wait for nothing, and do not take that lane.
func TestNode_refillIsBoundedAndWritesGoFirst(t *testing.T) {
	t.Parallel()
	const sessions = 160
	c, sent := refilling(t, sessions)
	other := c.create(3)
	c.taking = true
	rate, window := c.nodes[1].p.BulkRate, c.nodes[1].p.BulkWindow
	count := c.seen
	onLane := 0
	c.seen = func(e envelope) {
		count(e)
		if m, ok := e.msg.(*Replicate); ok && m.Slot == 3 && e.bulk {
			onLane++
		}
	}
	began, last := c.now.Mono, 0
	for !c.table.Slots[0].InSyncHas(c.holder(3)) {
		if c.now.Mono-began > int64(time.Minute) {
			t.Fatalf("after a minute %d bytes of %d were sent", *sent, sessions*large)
		}
		h := c.start(1, incr(other))
		c.run(0)
		if c.done[h] == nil {
			t.Fatalf("a write waits while %d bytes of %d are sent", *sent, sessions*large)
		}
		c.wantOK(c.done[h])
		elapsed := c.now.Mono - began
		if most := window + int64(float64(rate)*float64(elapsed)/1e9) + 2*large; int64(*sent) > most {
			t.Fatalf("%d bytes after %v, at the most %d", *sent, time.Duration(elapsed), most)
		}
		if *sent > last {
			last = *sent
			if n := c.nodes[1].Queues().Filling; n == 0 {
				t.Fatal("no slot is said to be filled")
			}
		}
		c.run(25 * time.Millisecond)
	}
	took := time.Duration(c.now.Mono - began)
	if least := time.Duration(float64(sessions*large-int(window)) / float64(rate) * 1e9); took < least || took > 3*least+2*time.Second {
		t.Errorf("%d bytes took %v, by the rate at least %v", sessions*large, took, least)
	}
	if *sent < sessions*large || onLane > 0 {
		t.Errorf("%d bytes were sent of %d, and %d writes on the lane for that", *sent, sessions*large, onLane)
	}
	if n := c.nodes[1].Queues().Filling; n != 0 {
		t.Errorf("%d slots are said to be filled", n)
	}
}

// Who takes in nothing is not sent more than the window.
func TestNode_refillHasAWindow(t *testing.T) {
	t.Parallel()
	c, sent := refilling(t, 40)
	c.lose = func(e envelope) bool {
		_, ack := e.msg.(*Ack)
		return ack && e.from == (ring.Holder{Num: 3, Boot: member.Boot{3}})
	}
	c.run(900 * time.Millisecond) // what is not confirmed is sent again after a second
	if window := int(c.nodes[1].p.BulkWindow); *sent == 0 || *sent > window+large {
		t.Errorf("%d bytes are under way, the window is %d", *sent, window)
	}
}
