package replicate

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/ring"
)

// greet has a member hear how far the others' clocks are ahead of its own.
func (c *trio) greet(num number, ahead map[number]time.Duration) {
	for _, who := range sortedKeys(ahead) {
		c.step(num, func(n *Node, out *Out) { n.PeerClock(c.now, c.holder(who), ahead[who], out) })
	}
}

func TestNode_clockFarFromTheOthersIsCorrectedInStamps(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		ahead map[number]time.Duration
		want  time.Duration
	}{
		"nobody heard":       {nil, 0},
		"all agree":          {map[number]time.Duration{2: 900 * time.Millisecond, 3: -10 * time.Millisecond}, 0},
		"own is ahead":       {map[number]time.Duration{2: -time.Hour, 3: -time.Hour - time.Second}, -time.Hour},
		"own is behind":      {map[number]time.Duration{2: time.Hour, 3: time.Hour + time.Second}, time.Hour},
		"another is ahead":   {map[number]time.Duration{2: time.Hour, 3: 5 * time.Millisecond}, 0},
		"all three differ":   {map[number]time.Duration{2: time.Hour, 3: -time.Hour}, 0},
		"one other behind":   {map[number]time.Duration{2: -time.Hour}, 0},
		"one other, no vote": {map[number]time.Duration{2: time.Hour}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTrio(t, false)
			c.nodes[1].hlc = 0
			c.greet(1, x.ahead)
			c.run(2 * time.Second)
			if got := c.nodes[1].ClockOffset(); got != x.want {
				t.Fatalf("offset %v, want %v", got, x.want)
			}
			id := c.create(0, attr("a", "1"))
			at := int64(c.record(3, 0, id).Attr("a").Stamp.HLC >> 16)
			if off := time.Duration(at-c.now.Wall)*time.Millisecond - x.want; off.Abs() > time.Second {
				t.Errorf("the stamp is %v off", off)
			}
		})
	}
}

func TestNode_stampsNeverGoBack(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	id := c.create(0, attr("a", "1"))
	first := c.record(1, 0, id).Attr("a").Stamp
	c.greet(1, map[number]time.Duration{2: -time.Hour, 3: -time.Hour})
	c.wantOK(c.do(1, set(id, "b", "2")))
	rec := c.record(1, 0, id)
	if rec.Attr("a").Stamp != first {
		t.Error("a stamp was altered")
	}
	if rec.Attr("b").Stamp.Compare(first) <= 0 {
		t.Error("a later change has an earlier stamp")
	}
}

func TestNode_clockThatIsSetRightNeedsNoCorrection(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	c.greet(1, map[number]time.Duration{2: time.Hour, 3: time.Hour})
	n := c.nodes[1]
	if n.ClockOffset() != time.Hour {
		t.Fatal("not corrected")
	}
	right := c.now
	right.Mono += 2e9
	right.Wall += 2000 + time.Hour.Milliseconds()
	n.Tick(right, &Out{})
	if got := n.ClockOffset(); got != 0 {
		t.Errorf("offset %v", got)
	}
}

func TestNode_clockOfAnotherRunDoesNotCount(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	old := c.holder(2)
	old.Boot[5]++
	c.step(1, func(n *Node, out *Out) { n.PeerClock(c.now, old, time.Hour, out) })
	c.greet(1, map[number]time.Duration{3: time.Hour})
	if got := c.nodes[1].ClockOffset(); got != 0 {
		t.Errorf("offset %v by a run that is gone", got)
	}
}

// nowhere is a Link to nobody.
type nowhere struct{}

func (nowhere) Send(*ring.Member, bool, []byte) {}
func (nowhere) Flush()                          {}
func (nowhere) ToLeader(ring.Message)           {}

func TestEngine_greetingCountsOnce(t *testing.T) {
	t.Parallel()
	c := newTrio(t, false)
	now := c.now
	e := NewEngine(Options{
		Config: Config{ID: c.nodes[1].cfg.ID, Boot: c.nodes[1].cfg.Boot, Params: DefaultParams(time.Hour), Defaults: Defaults{TTL: time.Hour}},
		Link:   nowhere{}, Clock: func() Time { return now },
	}, hclog.NewNullLogger())
	greet := func(num number, theirs int64, ahead time.Duration) {
		m := c.table.Member(num)
		e.PeerClock(m.ID, m.Boot, time.UnixMilli(theirs), ahead)
	}
	greet(2, 1, time.Hour) // the table does not name it yet: the next message tells again
	e.Adopt(c.table)
	greet(2, 1, time.Hour)
	greet(3, 1, time.Hour)
	if got := e.Figures().Clock; got != time.Hour {
		t.Fatalf("offset %v", got)
	}
	now.Mono += 5e9
	now.Wall += 5000 + time.Hour.Milliseconds()
	greet(2, 1, time.Hour) // on a connection that is old by now
	greet(3, 1, time.Hour)
	e.tick()
	if got := e.Figures().Clock; got != 0 {
		t.Errorf("offset %v after the clock was set", got)
	}
	greet(2, 2, 2*time.Hour)
	greet(3, 2, 2*time.Hour)
	if got := e.Figures().Clock; got != 2*time.Hour {
		t.Errorf("offset %v after new greetings", got)
	}
}
