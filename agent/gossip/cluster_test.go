package gossip_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/gossip/gossiptest"
	"github.com/rondel-project/rondel/agent/member"
)

// cluster is a set of agents' gossip in a bubble of fake time.
type cluster struct {
	t    *testing.T
	net  *gossiptest.Network
	all  map[string]*agent
	left []*agent
}

// agent is one of them, with what its callbacks were told.
type agent struct {
	*gossip.Gossip
	name string
	addr netip.AddrPort
	stop context.CancelFunc
	done chan struct{}
	err  error

	mu      sync.Mutex
	events  []gossip.Event
	records map[member.ID]map[string]string
}

func addrOf(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i / 250), byte(1 + i%250)}), 8701)
}

func newCluster(t *testing.T) *cluster {
	return &cluster{t: t, net: gossiptest.NewNetwork(), all: map[string]*agent{}}
}

// start runs an agent; change may alter its options.
func (c *cluster) start(i int, change func(*gossip.Options)) *agent {
	c.t.Helper()
	a, err := c.tryStart(i, change)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *cluster) tryStart(i int, change func(*gossip.Options)) (*agent, error) {
	a := &agent{name: fmt.Sprintf("m%d", i), addr: addrOf(i), done: make(chan struct{}), records: map[member.ID]map[string]string{}}
	o := gossip.Options{
		Name:      a.name,
		Meta:      member.Meta{ID: member.NewID(), Boot: member.NewBoot(), RPCPort: 8702, HTTPPort: 8700, ProxyPort: 8780, Version: "0.1.0"},
		Transport: c.net.Transport(a.addr),
		OnEvent: func(e gossip.Event) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.events = append(a.events, e)
		},
		OnRecord: func(id member.ID, key string, value []byte) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.records[id] == nil {
				a.records[id] = map[string]string{}
			}
			if value == nil {
				delete(a.records[id], key)
			} else {
				a.records[id][key] = string(value)
			}
		},
	}
	if change != nil {
		change(&o)
	}
	a.name = o.Name
	g, err := gossip.New(o)
	if err != nil {
		return nil, err
	}
	a.Gossip = g
	ctx, cancel := context.WithCancel(c.t.Context())
	a.stop = cancel
	go func() {
		defer close(a.done)
		a.err = g.Run(ctx)
	}()
	c.all[a.name] = a
	c.left = append(c.left, a)
	return a, nil
}

// form starts n agents and joins them.
func (c *cluster) form(n int, change func(*gossip.Options)) []*agent {
	c.t.Helper()
	var out []*agent
	for i := range n {
		a := c.start(i, change)
		out = append(out, a)
		if i > 0 {
			if _, err := a.Join(c.t.Context(), []string{out[0].addr.String()}); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	c.await("all see all", 10*time.Second, func() bool {
		for _, a := range out {
			if a.count(member.Alive) != n {
				return false
			}
		}
		return true
	})
	return out
}

// close ends all agents, and waits for the library's last timers.
func (c *cluster) close() {
	for _, a := range c.left {
		a.stop()
		<-a.done
	}
	time.Sleep(time.Minute)
}

// crash takes an agent away as kill -9 would.
func (c *cluster) crash(a *agent) {
	c.net.Crash(a.addr)
	a.stop()
	<-a.done
	delete(c.all, a.name)
}

func (c *cluster) await(what string, limit time.Duration, ok func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > limit {
			c.t.Errorf("not within %v: %s", limit, what)
			for _, a := range c.all {
				var s []string
				for _, m := range a.Members() {
					s = append(s, m.Name+"="+m.Status.String())
				}
				c.t.Errorf("  %s sees %s", a.name, strings.Join(s, " "))
			}
			c.close()
			c.t.FailNow()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

func (a *agent) count(s member.Status) (n int) {
	for _, m := range a.Members() {
		if m.Status == s {
			n++
		}
	}
	return n
}

func (a *agent) status(name string) member.Status {
	for _, m := range a.Members() {
		if m.Name == name {
			return m.Status
		}
	}
	return member.Unknown
}

func (a *agent) told(id member.ID) map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.records[id])
}

func (a *agent) sawEvent(kind gossip.EventKind, name string) (gossip.Event, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if e.Kind == kind && e.Member.Name == name {
			return e, true
		}
	}
	return gossip.Event{}, false
}

func TestGossip_deathIsSeen(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5, 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				defer c.close()
				all := c.form(n, nil)
				time.Sleep(5 * time.Second)
				dead := all[n-1]
				c.crash(dead)
				took := c.await("dead member is failed everywhere", 3*time.Second, func() bool {
					return !slices.ContainsFunc(all[:n-1], func(a *agent) bool { return a.status(dead.name) != member.Failed })
				})
				t.Logf("%d members: %v", n, took)
				for _, a := range all[:n-1] {
					if got := a.count(member.Failed); got != 1 {
						t.Errorf("%s sees %d failed", a.name, got)
					}
					synctest.Wait()
					if _, ok := a.sawEvent(gossip.Failed, dead.name); !ok {
						t.Errorf("%s was not told", a.name)
					}
				}
			})
		})
	}
}

// The pause is no longer than a probe, so who suspects the member says so when it is
// back, and it can object. Suspicions and objections are lost as well, so with many
// more packets lost, or longer pauses, one run in some dozen sees a death.
func TestGossip_pausesAndLossAreNoDeaths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(5, nil)
		c.net.Lose(0.03)
		for range 10 {
			time.Sleep(3 * time.Second)
			c.net.Cut(all[4].addr)
			time.Sleep(200 * time.Millisecond)
			c.net.Heal()
			c.net.Lose(0.03)
		}
		time.Sleep(3 * time.Second)
		for _, a := range all {
			for _, b := range all {
				if _, bad := a.sawEvent(gossip.Failed, b.name); bad {
					t.Errorf("%s thought %s dead", a.name, b.name)
				}
			}
		}
	})
}

func TestGossip_partitionHeals(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{20 * time.Second, 10 * time.Minute} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				defer c.close()
				all := c.form(5, nil)
				c.net.Cut(all[3].addr, all[4].addr)
				c.await("both sides see the other dead", 10*time.Second, func() bool {
					return all[0].count(member.Failed) == 2 && all[4].count(member.Failed) == 3
				})
				time.Sleep(d)
				c.net.Heal()
				took := c.await("one cluster again", 15*time.Second, func() bool {
					return !slices.ContainsFunc(all, func(a *agent) bool { return a.count(member.Alive) != 5 })
				})
				t.Logf("healed after %v", took)
				synctest.Wait()
				if _, ok := all[0].sawEvent(gossip.Joined, "m4"); !ok {
					t.Error("return was not told")
				}
			})
		})
	}
}

func TestGossip_quickRestartIsSeenByBoot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(3, nil)
		old := all[2]
		oldBoot, id := old.Self().Boot, old.Self().ID
		old.SetLocal("service/a", []byte("1"))
		c.await("record is there", time.Second, func() bool { return all[0].told(id)["service/a"] == "1" })
		c.crash(old)
		back := c.start(2, func(o *gossip.Options) { o.Meta.ID = id })
		if n, err := back.Join(t.Context(), []string{all[0].addr.String()}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		for _, a := range all[:2] {
			var e gossip.Event
			c.await("restart is told", time.Second, func() (ok bool) {
				e, ok = a.sawEvent(gossip.Rebooted, "m2")
				return ok
			})
			if e.Before != oldBoot || e.Member.Boot != back.Self().Boot {
				t.Errorf("%s was told %v after %v", a.name, e.Member.Boot, e.Before)
			}
			c.await("what it said before is gone", time.Second, func() bool { return len(a.told(id)) == 0 })
		}
		back.SetLocal("service/b", []byte("2"))
		c.await("what it says now is there", time.Second, func() bool {
			return all[0].told(id)["service/b"] == "2" && all[1].told(id)["service/b"] == "2"
		})
	})
}

func TestGossip_restartAtAnotherAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(3, nil)
		id := all[2].Self().ID
		c.crash(all[2])
		back := c.start(7, func(o *gossip.Options) { o.Name, o.Meta.ID = "m2", id })
		if n, err := back.Join(t.Context(), []string{all[0].addr.String()}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		c.await("seen at its new place", 5*time.Second, func() bool {
			for _, a := range all[:2] {
				m, _ := a.Member(id)
				if m.Gossip() != back.addr || m.Status != member.Alive {
					return false
				}
			}
			return true
		})
	})
}

func TestGossip_takenNameStopsTheNewcomer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(3, nil)
		late := c.start(9, func(o *gossip.Options) { o.Name = "m1" })
		n, err := late.Join(t.Context(), []string{all[0].addr.String(), all[1].addr.String()})
		if n != 0 || !errors.Is(err, gossip.ErrNameTaken) || !strings.Contains(err.Error(), "m1 at "+all[1].addr.String()) {
			t.Errorf("got %d, %v", n, err)
		}
		if err := late.RetryJoin(t.Context(), []string{all[2].addr.String()}); !errors.Is(err, gossip.ErrNameTaken) {
			t.Errorf("retry: got %v", err)
		}
		time.Sleep(10 * time.Second)
		for _, a := range all {
			if m, _ := a.Member(all[1].Self().ID); m.Status != member.Alive || a.count(member.Alive) != 3 {
				t.Errorf("%s lost the member that was first", a.name)
			}
		}
	})
}

func TestGossip_twoNewcomersWithOneName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		a := c.start(0, func(o *gossip.Options) { o.Name = "twin" })
		b := c.start(1, func(o *gossip.Options) { o.Name = "twin" })
		errs := make(chan error, 2)
		ctx, cancel := context.WithCancel(t.Context())
		for _, x := range [][2]*agent{{a, b}, {b, a}} {
			go func() { errs <- x[0].RetryJoin(ctx, []string{x[1].addr.String()}) }()
		}
		time.Sleep(20 * time.Second)
		stopped := 0
		for _, x := range []*agent{a, b} {
			select {
			case <-x.done:
				stopped++
				if !errors.Is(x.err, gossip.ErrNameTaken) {
					t.Error(x.err)
				}
			default:
			}
		}
		cancel()
		for range 2 {
			if err := <-errs; err != nil && !errors.Is(err, gossip.ErrNameTaken) {
				t.Error(err)
			}
		}
		if stopped != 1 {
			t.Errorf("%d of two stopped, want 1", stopped)
		}
	})
}

func TestGossip_strangersStayApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		x, y := [16]byte{1}, [16]byte{2}
		a := c.start(0, func(o *gossip.Options) { o.Meta.Cluster = x })
		b := c.start(1, func(o *gossip.Options) { o.Meta.Cluster = x })
		s := c.start(2, func(o *gossip.Options) { o.Meta.Cluster = y })
		fresh := c.start(3, nil)
		if n, err := b.Join(t.Context(), []string{a.addr.String()}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		n, err := s.Join(t.Context(), []string{a.addr.String(), b.addr.String()})
		if n != 0 || !errors.Is(err, gossip.ErrOtherCluster) || !strings.Contains(err.Error(), "m0 is in cluster 01") {
			t.Errorf("got %d, %v", n, err)
		}
		// One without a cluster must not lead the two together.
		if n, err := fresh.Join(t.Context(), []string{a.addr.String()}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := fresh.Join(t.Context(), []string{s.addr.String()}); n != 0 || !errors.Is(err, gossip.ErrOtherCluster) {
			t.Errorf("got %d, %v", n, err)
		}
		fresh.UpdateMeta(func(m *member.Meta) { m.Cluster, m.Epoch = x, 7 })
		c.await("the update is seen", 2*time.Second, func() bool {
			m, _ := b.Member(fresh.Self().ID)
			return m.Cluster == x && m.Epoch == 7
		})
		// The stranger takes over the address of a dead member.
		c.crash(b)
		c.crash(s)
		s2 := c.start(1, func(o *gossip.Options) { o.Meta.Cluster = y })
		time.Sleep(time.Minute)
		if len(s2.Members()) != 1 || a.count(member.Alive) != 2 {
			t.Errorf("%d and %d members", len(s2.Members()), a.count(member.Alive))
		}
	})
}

func TestGossip_keysMustAgree(t *testing.T) {
	t.Parallel()
	k1 := "MDEyMzQ1Njc4OWFiY2RlZg=="
	k2 := "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
	for name, tc := range map[string]struct {
		keys, theirs []string
		want         error
	}{
		"same":         {[]string{k1}, []string{k1}, nil},
		"rotated":      {[]string{k2, k1}, []string{k1, k2}, nil},
		"differ":       {[]string{k1}, []string{k2}, gossip.ErrKeysDiffer},
		"only they do": {nil, []string{k1}, gossip.ErrTheyEncrypt},
		"only we do":   {[]string{k1}, nil, gossip.ErrWeEncrypt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				defer c.close()
				a := c.start(0, func(o *gossip.Options) { o.Keys = tc.theirs })
				b := c.start(1, func(o *gossip.Options) { o.Keys = tc.keys })
				n, err := b.Join(t.Context(), []string{a.addr.String()})
				if !errors.Is(err, tc.want) || (n == 1) != (tc.want == nil) {
					t.Errorf("got %d, %v", n, err)
				}
				if tc.want != nil && !strings.Contains(fmt.Sprint(err), a.addr.String()) {
					t.Errorf("no address in %v", err)
				}
				if tc.want == nil {
					a.SetLocal("k", []byte("v"))
					c.await("records pass", time.Second, func() bool { return b.told(a.Self().ID)["k"] == "v" })
				}
			})
		})
	}
}

// TestJoin_malformedAddresses: each is named, and none keeps this agent from
// joining the others of the list.
func TestJoin_malformedAddresses(t *testing.T) {
	t.Parallel()
	bad := []string{
		"", "[::1", "[]:8701", "a:b:c", ":8701", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:-1", "10.0.0.1:http",
		"[fe80::1%eth0]:8701", "fe80::1%eth0", "host:8701:8702",
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		a, b := c.start(0, nil), c.start(1, nil)
		for _, text := range bad {
			n, err := b.Join(t.Context(), []string{text})
			if n != 0 || !errors.Is(err, gossip.ErrAddress) || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
				t.Errorf("%q: joined %d, %v", text, n, err)
			}
		}
		n, err := b.Join(t.Context(), append([]string{a.addr.String()}, strings.Join(bad, " , ")))
		if n != 1 || !errors.Is(err, gossip.ErrAddress) {
			t.Fatalf("joined %d, %v", n, err)
		}
		for _, text := range bad {
			if !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
				t.Errorf("%q is not named in: %v", text, err)
			}
		}
		c.await("joined", time.Second, func() bool { return len(b.Members()) == 2 })
	})
}

func TestGossip_leave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(4, nil)
		if err := all[3].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.crash(all[3])
		c.await("left everywhere", 2*time.Second, func() bool {
			return !slices.ContainsFunc(all[:3], func(a *agent) bool { return a.status("m3") != member.Left })
		})
		time.Sleep(5 * time.Minute)
		for _, a := range all[:3] {
			if a.status("m3") != member.Left {
				t.Errorf("%s sees %v", a.name, a.status("m3"))
			}
			if _, bad := a.sawEvent(gossip.Failed, "m3"); bad {
				t.Errorf("%s took it for a failure", a.name)
			}
		}
	})
}

func TestGossip_forceLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(5, nil)
		if err := all[0].ForceLeave("m1", false); !errors.Is(err, gossip.ErrStillHere) {
			t.Errorf("alive: %v", err)
		}
		if err := all[0].ForceLeave("nobody", false); !errors.Is(err, gossip.ErrUnknownMember) {
			t.Errorf("unknown: %v", err)
		}
		id := all[4].Self().ID
		c.crash(all[4])
		c.await("failed", 3*time.Second, func() bool { return all[0].status("m4") == member.Failed })
		if err := all[0].ForceLeave("m4", false); err != nil {
			t.Fatal(err)
		}
		c.await("left everywhere", 2*time.Second, func() bool {
			return !slices.ContainsFunc(all[:4], func(a *agent) bool { return a.status("m4") != member.Left })
		})
		time.Sleep(2 * time.Minute)
		for _, a := range all[:4] {
			if a.status("m4") != member.Left {
				t.Errorf("%s sees %v", a.name, a.status("m4"))
			}
		}
		if err := all[1].ForceLeave("m4", true); err != nil {
			t.Fatal(err)
		}
		c.await("gone everywhere", 2*time.Second, func() bool {
			return !slices.ContainsFunc(all[:4], func(a *agent) bool { return a.status("m4") != member.Unknown })
		})
		time.Sleep(time.Minute)
		back := c.start(4, func(o *gossip.Options) { o.Meta.ID = id })
		if n, err := back.Join(t.Context(), []string{all[2].addr.String()}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		c.await("a new run is welcome", 2*time.Second, func() bool { return all[0].status("m4") == member.Alive })
	})
}

func TestGossip_forcedOutWhileCutOffComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(3, nil)
		c.net.Cut(all[2].addr)
		c.await("failed", 5*time.Second, func() bool { return all[0].status("m2") == member.Failed })
		if err := all[0].ForceLeave("m2", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		c.net.Heal()
		c.await("it lives, so it is a member", 30*time.Second, func() bool {
			return !slices.ContainsFunc(all, func(a *agent) bool { return a.count(member.Alive) != 3 })
		})
	})
}

func TestGossip_fiveHundredRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(10, nil)
		src := all[3]
		id := src.Self().ID
		equal := func() bool {
			want := src.Records(id)
			for _, a := range c.all {
				if a == src {
					continue
				}
				told := a.told(id)
				if len(told) != len(want) {
					return false
				}
				for k, v := range want {
					if told[k] != string(v) {
						return false
					}
				}
			}
			return true
		}
		for i := range 500 {
			src.SetLocal(fmt.Sprintf("i/%d", i), []byte(strings.Repeat("x", 120)))
		}
		t.Logf("500 records everywhere after %v", c.await("500 records", time.Second, equal))
		_, before := c.net.Sent()
		src.SetLocal("i/77", []byte("changed"))
		t.Logf("one change everywhere after %v", c.await("one change", time.Second, equal))
		if _, after := c.net.Sent(); after-before > 40<<10 {
			t.Errorf("one change took %d bytes of packets", after-before)
		}
		src.DeleteLocal("i/78")
		src.SetLocal("long", []byte(strings.Repeat("y", 5000)))
		c.await("a removal and a long one", time.Second, equal)
		c.net.Lose(0.3)
		for i := range 60 {
			src.SetLocal(fmt.Sprintf("i/%d", i%7), []byte(fmt.Sprint("v", i)))
			time.Sleep(30 * time.Millisecond)
		}
		c.await("many changes under loss", 10*time.Second, equal) // a packet in three is lost
		c.net.Heal()
		late := c.start(20, nil)
		if n, err := late.Join(t.Context(), []string{all[0].addr.String()}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		c.await("a newcomer has them", time.Second, equal)
		c.net.Cut(all[0].addr, all[1].addr)
		time.Sleep(5 * time.Second)
		src.SetLocal("i/1", []byte("while cut off"))
		time.Sleep(30 * time.Second)
		c.net.Heal()
		c.await("those that were cut off have it", 20*time.Second, equal)
	})
}

func TestGossip_injectedFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		var calls sync.Map
		all := c.form(3, func(o *gossip.Options) {
			o.Fetch = func(_ context.Context, m gossip.Member) ([]byte, error) {
				n, loaded := calls.LoadOrStore(m.Name, 1)
				if loaded {
					calls.Store(m.Name, n.(int)+1)
				} else {
					return nil, errors.New("not reached")
				}
				b, ok := c.all[m.Name].Entry("")
				if !ok {
					return nil, errors.New("no entry")
				}
				return b, nil
			}
		})
		all[0].SetLocal("long", []byte(strings.Repeat("z", 9000)))
		id := all[0].Self().ID
		c.await("fetched by the given way", 2*time.Second, func() bool {
			return len(all[1].told(id)["long"]) == 9000 && len(all[2].told(id)["long"]) == 9000
		})
		if _, ok := calls.Load("m0"); !ok {
			t.Error("it was not asked")
		}
	})
}

func TestGossip_udpBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(3, nil)
		c.net.BlockPackets(true)
		time.Sleep(time.Minute)
		for _, a := range all {
			if a.count(member.Alive) != 3 {
				t.Errorf("%s sees %d alive", a.name, a.count(member.Alive))
			}
		}
	})
}

func TestGossip_knownPeersAreFoundAgain(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		n := 0
		all := c.form(3, func(o *gossip.Options) { o.DataDir = dirs[n]; n++ })
		time.Sleep(5 * time.Second)
		ids := map[int]member.ID{}
		for i, a := range all {
			ids[i] = a.Self().ID
		}
		for _, a := range all {
			c.crash(a)
		}
		for i := range 3 {
			all[i] = c.start(i, func(o *gossip.Options) { o.DataDir, o.Meta.ID = dirs[i], ids[i] })
		}
		c.await("all back without being told where", 15*time.Second, func() bool {
			return !slices.ContainsFunc(all, func(a *agent) bool { return a.count(member.Alive) != 3 })
		})
	})
}

func TestGossip_metaUpdatesAreFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		all := c.form(3, nil)
		for i := range 500 {
			all[0].UpdateMeta(func(m *member.Meta) { m.Epoch = uint64(i + 1) })
			time.Sleep(10 * time.Millisecond)
		}
		c.await("the last epoch is known", 2*time.Second, func() bool {
			a, _ := all[1].Member(all[0].Self().ID)
			b, _ := all[2].Member(all[0].Self().ID)
			return a.Epoch == 500 && b.Epoch == 500
		})
		synctest.Wait()
		n := 0
		all[1].mu.Lock()
		for _, e := range all[1].events {
			if e.Kind == gossip.Updated {
				n++
			}
		}
		all[1].mu.Unlock()
		if n > 10 {
			t.Errorf("%d updates in five seconds", n)
		}
	})
}

func TestGossip_slowReceiverBlocksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		defer c.close()
		release := make(chan struct{})
		first := true
		all := c.form(3, func(o *gossip.Options) {
			if first {
				o.OnEvent = func(gossip.Event) { <-release }
			}
			first = false
		})
		time.Sleep(30 * time.Second)
		c.crash(all[2])
		c.await("a stuck receiver does not stop detection", 3*time.Second, func() bool {
			return all[0].status("m2") == member.Failed && all[1].status("m2") == member.Failed
		})
		close(release)
	})
}
