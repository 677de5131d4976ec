package agent

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

func TestWays_throughOthersWhileTheLinkIsBroken(t *testing.T) {
	t.Parallel()
	const renew = 300 * time.Millisecond
	others := []member.ID{"b", "c"}
	for name, tc := range map[string]struct {
		answers func(straight bool, via member.ID) bool // whether the leader's answer comes
		wants   []member.ID                             // by whom Renews go in the end; "" is straight
	}{
		"the link is whole":             {func(bool, member.ID) bool { return true }, []member.ID{""}},
		"it is broken":                  {func(_ bool, via member.ID) bool { return via != "" }, []member.ID{"", "b", "c"}},
		"and one of the others is dead": {func(_ bool, via member.ID) bool { return via == "c" }, []member.ID{"", "c"}},
		"nothing comes":                 {func(bool, member.ID) bool { return false }, []member.ID{"", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w ways
			now := time.Now()
			granted := now
			for range 60 {
				now = now.Add(renew)
				straight, via := w.out(now, "a", true, others)
				if straight == (via != "") {
					t.Fatalf("a Renew goes straight: %v, and through %q", straight, via)
				}
				if !slices.Contains(tc.wants, via) && now.Sub(granted) < 4*renew {
					t.Errorf("through %q", via)
				}
				if tc.answers(straight, via) {
					granted = now
					w.answered(now, straight)
				}
				// What is not asked again every moment goes both ways.
				if both, also := w.out(now, "a", false, others); !both || (also == "") != (now.Sub(w.direct) < relayAfter) {
					t.Errorf("a report goes straight: %v, and through %q", both, also)
				}
			}
			if name != "nothing comes" && now.Sub(granted) > 2*renew {
				t.Errorf("no answer for %v", now.Sub(granted))
			}
			// Another leader is asked straight, whatever became of the last.
			if straight, via := w.out(now, "d", true, others); !straight || via != "" {
				t.Errorf("a new leader is asked through %q", via)
			}
		})
	}
}

func TestWays_aloneThereIsNobodyToAsk(t *testing.T) {
	t.Parallel()
	var w ways
	now := time.Now()
	for range 5 {
		if straight, via := w.out(now, "a", true, nil); !straight || via != "" {
			t.Errorf("straight: %v, through %q", straight, via)
		}
		now = now.Add(time.Second)
	}
}

func TestWays_answersGoBackAsTheyCame(t *testing.T) {
	t.Parallel()
	var w ways
	now := time.Now()
	wants := func(when string, via member.ID) {
		t.Helper()
		if got := w.back(now, "m"); got != via {
			t.Errorf("%s: back through %q, want %q", when, got, via)
		}
	}
	wants("never heard of", "")
	w.came(now, "m", "b")
	wants("came through b", "b")
	w.came(now, "m", "")
	wants("came straight", "")
	w.came(now, "m", "c")
	now = now.Add(routeFor + 1)
	wants("long ago", "")
}

func FuzzDecodeRelayed(f *testing.F) {
	a, b := member.NewID(), member.NewID()
	f.Add(appendRelayed(nil, a, b, []byte("payload")))
	f.Add([]byte{})
	f.Add([]byte{relayVersion})
	f.Fuzz(func(t *testing.T, in []byte) {
		from, to, payload, err := decodeRelayed(in)
		if err != nil {
			if !errors.Is(err, errRelayed) {
				t.Fatal(err)
			}
			return
		}
		if again := appendRelayed(nil, from, to, payload); !bytes.Equal(again, in) {
			t.Fatalf("%x became %x", in, again)
		}
	})
}
