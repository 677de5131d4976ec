package catalog_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/catalog"
	"github.com/rondel-project/rondel/agent/member"
)

// D-17: a drain has a reason and may have an end, after which clients are
// moved; all members know, it can be undone, and it outlives a restart.
func TestCase_D17_drainWithDeadline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := catalog.New()
	w := newWire(t, c)
	c.SetMember(w.id, "web1", "10.0.0.11", member.Alive)
	l := open(t, catalog.LocalOptions{Dir: dir, Publisher: w})
	if err := l.Register(shop("a", 1)); err != nil {
		t.Fatal(err)
	}
	one := func() catalog.Instance { return c.Snapshot().Instances("shop")[0] }
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	if err := l.SetDrain("a", &catalog.Drain{Reason: "new version", Until: until}); err != nil {
		t.Fatal(err)
	}
	if i := one(); !i.Draining || i.Moved || i.Drain.Reason != "new version" || !i.Drain.Until.Equal(until) || i.Health != catalog.Passing {
		t.Errorf("%+v", i)
	}
	if ids := l.Expire(until.Add(-time.Second)); len(ids) != 0 || one().Moved {
		t.Errorf("over too early: %v %+v", ids, one())
	}

	l = open(t, catalog.LocalOptions{Dir: dir, Publisher: w})
	if i := one(); !i.Draining || i.Drain.Reason != "new version" || !i.Drain.Until.Equal(until) {
		t.Errorf("after a restart: %+v", i)
	}
	if ids := l.Expire(until); len(ids) != 1 || ids[0] != "a" || !one().Moved || one().Health != catalog.Passing {
		t.Errorf("%v %+v", ids, one())
	}
	if ids := l.Expire(until.Add(time.Second)); len(ids) != 0 {
		t.Errorf("over twice: %v", ids)
	}
	if err := l.SetDrain("a", nil); err != nil || one().Draining || one().Moved || one().Drain != (catalog.Drain{}) {
		t.Errorf("%v %+v", err, one())
	}
	if err := l.SetDrain("a", &catalog.Drain{}); err != nil || !one().Draining || len(l.Expire(until.Add(1000*time.Hour))) != 0 {
		t.Errorf("without an end: %v %+v", err, one())
	}
	if err := l.SetDrain("b", nil); !errors.Is(err, catalog.ErrUnknownInstance) {
		t.Error(err)
	}
}

// D-15: a weight that an operator sets holds for registered and configured
// instances, over restarts, until those who registered it say something new.
func TestCase_D15_weightByOperators(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := catalog.New()
	w := newWire(t, c)
	l := open(t, catalog.LocalOptions{Dir: dir, Publisher: w})
	weighing := func(id string, port, weight int) catalog.Registration {
		r := shop(id, port)
		r.Weight = &weight
		return r
	}
	if err := errors.Join(l.SetConfigured([]catalog.Registration{weighing("conf", 1, 50)}), l.Register(weighing("reg", 2, 50))); err != nil {
		t.Fatal(err)
	}
	weights := func(conf, reg int) {
		t.Helper()
		list := c.Snapshot().Instances("shop")
		if len(list) != 2 || list[0].Weight != conf || list[1].Weight != reg {
			t.Errorf("%+v, want %d and %d", list, conf, reg)
		}
	}
	if err := errors.Join(l.SetWeight("conf", 7), l.SetWeight("reg", 0)); err != nil {
		t.Fatal(err)
	}
	weights(7, 0)
	for _, weight := range []int{-1, catalog.MaxWeight + 1} {
		if err := l.SetWeight("conf", weight); !errors.Is(err, catalog.ErrInvalid) {
			t.Error(weight, err)
		}
	}
	if err := l.SetWeight("nix", 1); !errors.Is(err, catalog.ErrUnknownInstance) {
		t.Error(err)
	}
	// A reload that says what was said before, and a restart.
	if err := errors.Join(l.SetConfigured([]catalog.Registration{weighing("conf", 1, 50)}), l.Register(weighing("reg", 2, 50))); err != nil {
		t.Fatal(err)
	}
	weights(7, 0)
	l = open(t, catalog.LocalOptions{Dir: dir, Publisher: w})
	if err := l.SetConfigured([]catalog.Registration{weighing("conf", 1, 50)}); err != nil {
		t.Fatal(err)
	}
	weights(7, 0)
	if err := errors.Join(l.SetConfigured([]catalog.Registration{weighing("conf", 1, 60)}), l.Register(weighing("reg", 2, 70))); err != nil {
		t.Fatal(err)
	}
	weights(60, 70)
}
