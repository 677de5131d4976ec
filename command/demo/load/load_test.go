package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fakeShop keeps carts as the real one does, unless told to misbehave.
type fakeShop struct {
	mu    sync.Mutex
	carts map[string]map[string]int
	keys  map[string]int // answers by key
	adds  int

	issued int // sessions
	lose   int // this add is acknowledged and forgotten
	twice  int // this add is applied twice
	forget int // at this add the session is gone
	fail   int // every so many adds answer 503 after they were applied
}

func startShop(t *testing.T, f *fakeShop) string {
	t.Helper()
	f.carts, f.keys = map[string]map[string]int{}, map[string]int{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func (f *fakeShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := ""
	if c, err := r.Cookie("RONDEL"); err == nil {
		id = c.Value
	}
	if f.carts[id] == nil {
		f.issued++
		id = fmt.Sprintf("s%d", f.issued)
		f.carts[id] = map[string]int{}
		http.SetCookie(w, &http.Cookie{Name: "RONDEL", Value: id})
	}
	cart := f.carts[id]
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(map[string]any{"session": id, "items": cart, "owner": "agent-1", "instance": "shop-1", "member": "agent-1"})
		return
	}
	item, key := r.URL.Query().Get("item"), r.Header.Get("Idempotency-Key")
	value, known := f.keys[key]
	if !known {
		f.adds++
		cart[item]++
		value = cart[item]
		f.keys[key] = value
		switch f.adds {
		case f.lose:
			cart[item]--
		case f.twice:
			cart[item]++
		case f.forget:
			delete(f.carts, id)
		}
		if f.fail > 0 && f.adds%f.fail == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "not now")
			return
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"session": id, "item": item, "count": value, "owner": "agent-1", "instance": "shop-1", "member": "agent-1"})
}

func (f *fakeShop) added() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.adds
}

// shopFor lets clients shop until so many things were added, and settles.
func shopFor(t *testing.T, f *fakeShop, adds, clients int, targets ...string) Report {
	t.Helper()
	l := New(Options{Targets: targets, Items: []string{"tea", "cup"}, Clients: clients, Think: time.Millisecond, Within: time.Minute}, "first")
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for f.added() < adds {
		select {
		case <-ctx.Done():
			t.Fatalf("only %d things were added", f.added())
		case <-tick.C:
		}
	}
	stop()
	<-done
	return l.Settle(t.Context())
}

func TestLoad_honestShop(t *testing.T) {
	t.Parallel()
	f := &fakeShop{}
	r := shopFor(t, f, 60, 3, startShop(t, f))
	if !r.Clean() || r.Verdict != (Verdict{}) {
		t.Errorf("accused of %+v", r.Verdict)
	}
	if r.Sessions != 3 || r.Acknowledged != f.added() || r.Unknown != 0 {
		t.Errorf("%d sessions, %d acknowledged, %d unknown, of %d", r.Sessions, r.Acknowledged, r.Unknown, f.added())
	}
	if got := r.Writes().Requests; got != f.added() {
		t.Errorf("%d writes counted, want %d", got, f.added())
	}
	if len(r.Phases) != 2 || r.Phases[0].Name != "first" {
		t.Errorf("phases %+v", r.Phases)
	}
}

func TestLoad_faultsAreFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shop *fakeShop
		ok   func(Verdict) bool
	}{
		"lost write":    {&fakeShop{lose: 20}, func(v Verdict) bool { return v.WritesLost == 1 && v.AppliedTwice == 0 && v.SessionsLost == 0 }},
		"applied twice": {&fakeShop{twice: 20}, func(v Verdict) bool { return v.AppliedTwice == 1 && v.WritesLost == 0 && v.SessionsLost == 0 }},
		"lost session":  {&fakeShop{forget: 20}, func(v Verdict) bool { return v.SessionsLost == 1 && v.WritesLost > 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := shopFor(t, c.shop, 60, 2, startShop(t, c.shop))
			if r.Clean() || !c.ok(r.Verdict) {
				t.Errorf("verdict %+v", r.Verdict)
			}
		})
	}
}

func TestLoad_repeatsAreNoFault(t *testing.T) {
	t.Parallel()
	f := &fakeShop{fail: 5}
	r := shopFor(t, f, 60, 2, startShop(t, f))
	if !r.Clean() {
		t.Errorf("accused of %+v", r.Verdict)
	}
	w := r.Writes()
	if w.Failed < 10 || w.GivenUp != 0 || r.Reasons["status 503: not now"] != w.Failed {
		t.Errorf("%+v, because of %v", w, r.Reasons)
	}
	if w.LongestGap < retryPause {
		t.Errorf("longest gap %s, but there was a repeat", w.LongestGap)
	}
}

func TestLoad_deadTargetIsPassedOver(t *testing.T) {
	t.Parallel()
	f := &fakeShop{}
	r := shopFor(t, f, 30, 2, "127.0.0.1:1", startShop(t, f))
	if !r.Clean() || r.Reads().Failed+r.Writes().Failed != 0 {
		t.Errorf("%+v, failed %v: a connection that was never made is no failed request", r.Verdict, r.Reasons)
	}
}

func TestLoad_unreadCartsAreNotClean(t *testing.T) {
	t.Parallel()
	l := New(Options{Targets: []string{"127.0.0.1:1"}, Items: []string{"tea"}, Clients: 1, Think: time.Millisecond, Within: 50 * time.Millisecond}, "first")
	r := l.Settle(t.Context())
	if r.Clean() || r.Unread != 1 {
		t.Errorf("clean, with %d unread", r.Unread)
	}
}
