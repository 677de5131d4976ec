package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/ring"
)

func TestName_sameForAllAndProvable(t *testing.T) {
	t.Parallel()
	old, now := NewKeyring(testKeys(1)), NewKeyring(testKeys(3))
	seen := map[ID]bool{}
	slots := map[ring.Slot]int{}
	for n := range 4000 {
		name := fmt.Appendf(nil, "value-%d", n)
		id := now.Name("shop", name)
		if other := old.Name("shop", name); other != id {
			t.Fatalf("a newer key changes the id from %q to %q", other, id)
		}
		if seen[id] || len(id) != IDLen || !id.Named() || id.Issued() {
			t.Fatalf("id %q of %q", id, name)
		}
		seen[id] = true
		p, err := now.ParseAny(string(id))
		if h, ok := id.Slot(); err != nil || !p.Named || !ok || h != p.Slot {
			t.Fatalf("%q: %+v, %v", id, p, err)
		}
		slots[p.Slot]++
		if _, err := now.Parse(string(id)); !errors.Is(err, ErrForeignID) {
			t.Fatalf("%q passes for one that was issued: %v", id, err)
		}
	}
	if len(slots) < 950 {
		t.Errorf("4000 names are in %d slots only", len(slots))
	}
	if now.Name("shop", []byte("ab")) == now.Name("shopa", []byte("b")) {
		t.Error("scope and name run into each other")
	}
	other := testKeys(1)
	other[0].Secret[9]++
	if NewKeyring(other).Name("shop", []byte("x")) == old.Name("shop", []byte("x")) {
		t.Error("the id does not depend on the key")
	}
	minted := now.Mint(5, time.Unix(1_800_000_000, 0))
	if minted.Named() || !minted.Issued() || ID("x").Named() || ID(strings.Repeat("!", IDLen)).Named() {
		t.Error("what is no named id passes for one")
	}
	// Neither can be turned into the other.
	for _, id := range []ID{minted, now.Name("shop", []byte("x"))} {
		flipped := "AQ"
		if id[1] == 'Q' {
			flipped = "Ag"
		}
		if _, err := now.ParseAny(flipped + string(id[2:])); !errors.Is(err, ErrForeignID) {
			t.Errorf("%q with the other format: %v", id, err)
		}
	}
}

func TestMerge_lawsOfNamedIDs(t *testing.T) {
	t.Parallel()
	id := NewKeyring(testKeys(1)).Name("shop", []byte("x"))
	rapid.Check(t, func(t *rapid.T) {
		var s [3]*Record
		for i := range s {
			s[i] = genRecord(id).Draw(t, "record")
		}
		a, b, c := s[0], s[1], s[2]
		m := func(x, y *Record) *Record { r, _ := Merge(x, y); return r }
		sum := func(r *Record) string { return fmt.Sprint(r.Version(), r.Sum(), r.Created) }
		equal := a.Version() == b.Version() && a.Sum() == b.Sum() && a.Created != b.Created // information only
		if got, want := sum(m(b, a)), sum(m(a, b)); got != want && !equal {
			t.Fatalf("not commutative:\n%s\n%s", got, want)
		}
		if got, want := m(m(a, b), c), m(a, m(b, c)); got.Sum() != want.Sum() || got.Version() != want.Version() {
			t.Fatalf("not associative:\n%s\n%s", sum(got), sum(want))
		}
		hi := a
		if b.Version().Compare(a.Version()) > 0 {
			hi = b
		}
		if ab := m(a, b); ab.Version() != hi.Version() || a.Version() != b.Version() && (ab.Sum() != hi.Sum() || ab.Dead != hi.Dead) {
			t.Fatalf("of %s and %s came %s", sum(a), sum(b), sum(ab))
		}
	})
}

func TestApply_namedIDAfterItsEnd(t *testing.T) {
	t.Parallel()
	k := NewKeyring(testKeys(1))
	for _, named := range []bool{true, false} {
		id := k.Mint(1, time.Now())
		if named {
			id = k.Name("shop", []byte("x"))
		}
		put := &Request{Kind: Patch, ID: id, Attrs: []Attr{{Name: "b", Value: []byte("1"), Type: "text/plain"}}, TTL: time.Minute}
		rec, _ := apply(t, nil, put, testEnv())
		dead, _ := apply(t, rec, &Request{Kind: Delete, ID: id}, testEnv())
		only := *put
		only.IfMatchAny = true
		if c, resp := Apply(dead, &only, testEnv()); c != nil || resp.Status == OK {
			t.Errorf("named %v: what has ended passes for something that exists: %+v", named, resp)
		}
		c, resp := Apply(dead, put, testEnv())
		if !named {
			if c != nil || resp.Status != NotFound {
				t.Errorf("an ended session is made again: %+v", resp)
			}
			continue
		}
		if c == nil || !c.Full || c.Next.Dead || c.Next.Ver != dead.Ver+1 || c.Next.Attr("b") == nil || c.Next.TTL != time.Minute {
			t.Errorf("made again: %+v, %+v", c, resp)
		}
	}
}
