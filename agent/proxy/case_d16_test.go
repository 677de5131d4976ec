package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// hashing is a configuration that goes by a key, without sessions.
func hashing(on HashOn, name string) Config {
	return routed(func(r *Route) {
		r.Balance, r.HashOn, r.HashName = Hash, on, name
		r.Sticky = Sticky{}
	})
}

// D-16: 1,000 keys go to the same places by every agent; a lost app moves its
// own alone, and they return with it.
func TestCase_D16_sameMapOnEveryAgent(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	var rigs []*rig
	for n := range 3 {
		shuffled := slices.Clone(list)
		slices.Reverse(shuffled[n:])
		rigs = append(rigs, startRig(t, setup{cfg: hashing(HashHeader, "X-User"), position: n, apps: shuffled}))
	}
	places := func(r *rig) (at []string) {
		k := r.keep(t) // which may not rest for long before its first request
		for n := range 1000 {
			at = append(at, k.who("/", fmt.Sprintf("x-user: user%d\r\n", n)))
		}
		return at
	}
	first := places(rigs[0])
	for _, r := range rigs[1:] {
		if !slices.Equal(places(r), first) {
			t.Fatal("agents differ")
		}
	}
	lost := slices.Clone(list)
	lost[1].Health = Critical
	rigs[0].SetInstances(lost)
	moved := 0
	for n, got := range places(rigs[0]) {
		if got == first[n] {
			continue
		}
		moved++
		if first[n] != "a2" {
			t.Fatalf("a key of %s, which lives, moved to %s", first[n], got)
		}
	}
	if moved == 0 || moved > 300 {
		t.Errorf("%d of 1000 keys moved", moved)
	}
	rigs[0].SetInstances(list)
	if !slices.Equal(places(rigs[0]), first) {
		t.Error("the keys did not return")
	}
}

// D-16: without the key, or with an empty one, requests are spread.
func TestCase_D16_withoutTheKey(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	for name, tc := range map[string]struct {
		cfg            Config
		target, fields string
	}{
		"no header":          {hashing(HashHeader, "X-User"), "/", ""},
		"empty header":       {hashing(HashHeader, "X-User"), "/", "X-User: \r\n"},
		"empty header twice": {hashing(HashHeader, "X-User"), "/", "X-User:\r\nX-User: x\r\n"},
		"no query":           {hashing(HashQuery, "k"), "/", ""},
		"empty parameter":    {hashing(HashQuery, "k"), "/?k=&a=1", ""},
		"no value":           {hashing(HashQuery, "k"), "/?k", ""},
		"other case":         {hashing(HashQuery, "k"), "/?K=1", ""},
		"part of a name":     {hashing(HashQuery, "k"), "/?kk=1&ak=1", ""},
		"no cookie":          {hashing(HashCookie, "k"), "/", "Cookie: K=1\r\n"},
		"empty cookie":       {hashing(HashCookie, "k"), "/", "Cookie: k=\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := startRig(t, setup{cfg: tc.cfg, apps: list}).keep(t)
			count := map[string]int{}
			for range 400 {
				count[k.who(tc.target, tc.fields)]++
			}
			for app, n := range count {
				if n != 100 {
					t.Errorf("%s got %d of 400", app, n)
				}
			}
		})
	}
}

// D-16: the first of repeated parameters counts, raw: %31 is not 1.
func TestCase_D16_rawQueryFirstParameter(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	k := startRig(t, setup{cfg: hashing(HashQuery, "k"), apps: list}).keep(t)
	differ := false
	for n := range 50 {
		want := k.who(fmt.Sprintf("/?k=%d", n), "")
		for _, target := range []string{"/?k=%d&k=x", "/?a=1&k=%d", "/other?k=%d&", "/?k=%d&K=7"} {
			if got := k.who(fmt.Sprintf(target, n), ""); got != want {
				t.Errorf(target+" went to %s, not %s", n, got, want)
			}
		}
		if n < 10 {
			differ = differ || k.who(fmt.Sprintf("/?k=%%3%d", n), "") != want
		}
	}
	if !differ {
		t.Error("parameters are decoded")
	}
}

// D-16: every kind of key has its own place, and long ones are nothing special.
func TestCase_D16_kindsOfKeys(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	long := strings.Repeat("x", 40<<10)
	for name, tc := range map[string]struct {
		cfg Config
		ask func(k *keep, n int) string
	}{
		"path":   {hashing(HashPath, ""), func(k *keep, n int) string { return k.who(fmt.Sprintf("/p%d?q=%d", n, n%3), "") }},
		"cookie": {hashing(HashCookie, "who"), func(k *keep, n int) string { return k.who("/", fmt.Sprintf("Cookie: a=b; who=u%d\r\n", n)) }},
		"header": {hashing(HashHeader, "X-User"), func(k *keep, n int) string { return k.who("/", fmt.Sprintf("X-USER: u%d\r\nX-User: y\r\n", n)) }},
		"long": {hashing(HashHeader, "X-User"), func(k *keep, n int) string {
			return k.who("/", "X-User: "+long[:len(long)-n]+"\r\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := startRig(t, setup{cfg: tc.cfg, apps: list}).keep(t)
			seen := map[string]bool{}
			for n := range 40 {
				first := tc.ask(k, n)
				seen[first] = true
				for range 2 {
					if got := tc.ask(k, n); got != first {
						t.Errorf("key %d went to %s and to %s", n, first, got)
					}
				}
			}
			if len(seen) != 4 {
				t.Errorf("40 keys reached %d apps", len(seen))
			}
		})
	}
}

// D-16: a key of 100 KB is refused with the head that it makes too large, and
// that is all.
func TestCase_D16_hugeKey(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	r := startRig(t, setup{cfg: hashing(HashHeader, "X-User"), apps: list})
	_, br := r.put(t, strings.NewReader("GET / HTTP/1.1\r\nHost: x\r\nX-User: "), bytes.NewReader(bytes.Repeat([]byte("k"), 100<<10)), strings.NewReader("\r\n\r\n"))
	if resp, _ := read(t, br, "GET"); resp.StatusCode != 431 {
		t.Error(resp.Status)
	}
	if got := r.keep(t).who("/", "X-User: k\r\n"); got == "" {
		t.Error("nobody")
	}
}

// D-16: the fallback is the one that was configured.
func TestCase_D16_fallback(t *testing.T) {
	t.Parallel()
	_, list := fourApps(t)
	cfg := hashing(HashHeader, "X-User")
	cfg.Routes[0].HashFallback = WeightedRoundRobin
	k := startRig(t, setup{cfg: cfg, apps: weighted(list, 6, 1, 1)}).keep(t)
	if count := k.spread(400); count["a1"] != 300 {
		t.Errorf("6:1:1 gave %v", count)
	}
}
