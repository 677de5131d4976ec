package gossip

import (
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

func kinds(l *list) (out []string) {
	for _, e := range l.events() {
		out = append(out, e.Member.Name+" "+e.Kind.String())
	}
	return out
}

func wantKinds(t *testing.T, l *list, want ...string) {
	t.Helper()
	got := kinds(l)
	if len(got) != len(want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("events %v, want %v", got, want)
		}
	}
}

func TestList_eventsCoalesce(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	at := mustAddr("10.0.0.1:8701")
	meta := member.Meta{ID: member.NewID(), Boot: member.NewBoot()}
	l := newList()
	l.here("a", at, meta, now)
	l.here("a", at, meta, now)
	wantKinds(t, l, "a joined")
	wantKinds(t, l)
	l.gone("a", now)
	l.here("a", at, meta, now)
	wantKinds(t, l) // nobody saw it go
	l.gone("a", now)
	first := meta.Boot
	meta.Boot = member.NewBoot()
	l.here("a", at, meta, now)
	events := l.events()
	if len(events) != 1 || events[0].Kind != Rebooted || events[0].Before != first {
		t.Fatalf("%+v", events)
	}
	meta.Epoch = 3
	l.here("a", at, meta, now)
	wantKinds(t, l, "a updated")
	l.gone("a", now)
	wantKinds(t, l, "a failed")
	l.here("a", at, meta, now)
	wantKinds(t, l, "a joined")
}

func TestList_replacedMember(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	at := mustAddr("10.0.0.1:8701")
	l := newList()
	old := member.Meta{ID: member.NewID(), Boot: member.NewBoot()}
	l.here("a", at, old, now)
	kinds(l)
	l.here("a", at, member.Meta{ID: member.NewID(), Boot: member.NewBoot()}, now)
	events := l.events()
	if len(events) != 2 || events[0].Kind != Removed || events[0].Member.ID != old.ID || events[1].Kind != Joined {
		t.Fatalf("%+v", events)
	}
}

func TestList_renamedMember(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := newList()
	meta := member.Meta{ID: member.NewID(), Boot: member.NewBoot()}
	l.here("a", mustAddr("10.0.0.1:8701"), meta, now)
	meta.Boot = member.NewBoot()
	l.here("b", mustAddr("10.0.0.2:8701"), meta, now)
	l.gone("a", now)
	if len(l.byName) != 1 || l.byID(meta.ID).Name != "b" {
		t.Fatalf("%+v", l.byName)
	}
}

func TestList_notes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	at := mustAddr("10.0.0.1:8701")
	meta := member.Meta{ID: member.NewID(), Boot: member.NewBoot()}
	l := newList()
	l.here("a", at, meta, now)
	if !l.take(meta.ID, note{boot: meta.Boot, seq: 2, left: true}, now) || l.take(meta.ID, note{boot: meta.Boot, seq: 1}, now) || l.take(meta.ID, note{boot: meta.Boot, seq: 2}, now) {
		t.Fatal("an old note was taken, or a new one was not")
	}
	if l.byName["a"].Status != member.Alive {
		t.Fatal("a note changed a living member")
	}
	kinds(l)
	l.gone("a", now)
	wantKinds(t, l, "a left")
	if !l.barred(meta.ID, meta.Boot) || l.barred(meta.ID, member.NewBoot()) {
		t.Fatal("the wrong run is barred")
	}
	l.take(meta.ID, note{boot: meta.Boot, seq: 3, left: true, prune: true}, now)
	wantKinds(t, l, "a removed")
	if l.absent("a", at, meta, member.Failed, now) {
		t.Fatal("a pruned member came back by hearsay")
	}
}

func TestList_expires(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	l := newList()
	meta := member.Meta{ID: member.NewID(), Boot: member.NewBoot()}
	l.here("a", mustAddr("10.0.0.1:8701"), meta, now)
	l.gone("a", now)
	kinds(l)
	l.expire(now.Add(keepFailed - time.Hour))
	wantKinds(t, l)
	l.expire(now.Add(keepFailed + time.Hour))
	wantKinds(t, l, "a removed")
}
