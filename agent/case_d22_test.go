package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/agenttest"
)

// lossless are values that libraries like to change on the way.
func lossless() map[string]struct{ kind, value string } {
	const binary, text = "application/octet-stream", "application/json"
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return map[string]struct{ kind, value string }{
		"all bytes":      {binary, string(all)},
		"not UTF-8":      {binary, "\xff\xfe"},
		"empty":          {binary, ""},
		"NUL":            {"text/plain; charset=utf-8", "a\x00b"},
		"emoji":          {"text/plain; charset=utf-8", "👩‍👩‍👧‍👦"},
		"JSON emoji":     {text, `"👩‍👩‍👧‍👦 \ud83d\ude00"`},
		"lone surrogate": {text, `"\ud800"`},
		"64 bits":        {text, `9007199254740993`},
		"1.0":            {text, `1.0`},
		"1e400":          {text, `[1e400,-0,1E+2,0.10]`},
		"key order":      {text, `{"b":1,"a":{"z":[],"y":{}},"b2": [ 1 , 2 ]}`},
		"double keys":    {text, `{"a":1,"a":2}`},
		"deep":           {text, strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)},
		"null":           {text, `null`},
		"pickle":         {"application/x-python-pickle", "\x80\x04\x95\x0e\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s."},
		"large":          {binary, strings.Repeat("\x00\xff\x80", 200_000)},
	}
}

// What goes in comes out, byte for byte: through another agent, at each copy,
// and after the owner's death.
func TestCase_D22_valuesComeOutAsTheyWentIn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		owner := c.Other(c.Leader())
		through, other := c.Other(owner.Name), c.Leader()
		ids := map[string]string{}
		path := func(name string) string { return "/v1/sessions/" + ids[name] + "/attributes/v" }
		for name, v := range lossless() {
			ids[name] = ok(t, "create", owner.Create(attrs{"small": 1}, "")).ID
			ok(t, name, through.Send(http.MethodPut, path(name), []byte(v.value), "Content-Type", v.kind))
		}
		check := func(when string, get func(path string) agenttest.Answer, query string) {
			t.Helper()
			for name, v := range lossless() {
				a := get(path(name) + query)
				if !a.OK() || string(a.Raw) != v.value || a.Header.Get("Content-Type") != v.kind {
					t.Errorf("%s, %s: %d %s with %d bytes instead of %d, %.80q", when, name, a.Status, a.Header.Get("Content-Type"), len(a.Raw), len(v.value), a.Raw)
				}
			}
		}
		check("through another agent", c.Member(other).Get, "")
		for _, m := range c.Members() {
			check("at "+m.Name, m.Get, "?consistency=stale")
		}
		// A session as a whole shows bytes in a form that JSON has for them.
		for name, v := range lossless() {
			if name == "deep" {
				continue // as a whole it is deeper than this client reads
			}
			a := ok(t, "read", through.Read(ids[name]))
			if v.kind == "application/json" {
				if a.Attr("v") != v.value {
					t.Errorf("%s, in the session: %.100s", name, a.Attr("v"))
				}
				continue
			}
			var b struct {
				Base64      []byte
				ContentType string
			}
			if err := json.Unmarshal([]byte(a.Attr("v")), &b); err != nil || string(b.Base64) != v.value || b.ContentType != v.kind {
				t.Errorf("%s, in the session: %.100s", name, a.Attr("v"))
			}
			// and what was shown can be sent back.
			ok(t, "put back", through.Put(ids[name], attrs{"v": a.Attributes["v"]}))
		}
		c.Crash(owner.Name)
		c.WaitDown(owner.Name, 10*time.Second)
		check("after the owner's death", func(path string) agenttest.Answer {
			return tries(c, 10*time.Second, func(m *agenttest.Member) agenttest.Answer { return m.Get(path) })
		}, "")
	})
}

// One limit holds for the whole session; beyond it nothing changes, and the
// answer names the limit.
func TestCase_D22_limit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		owner, through := c.Member("m1"), c.Member("m2")
		id := ok(t, "create", owner.Create(attrs{"small": 1}, "")).ID
		path := "/v1/sessions/" + id + "/attributes/big"
		const limit = 1 << 20
		put := func(size int) agenttest.Answer {
			return through.Send(http.MethodPut, path, bytes.Repeat([]byte{0xfe}, size), "Content-Type", "application/octet-stream")
		}
		fits, over := 0, limit+1
		for over-fits > 1 {
			if mid := (fits + over) / 2; put(mid).OK() {
				fits = mid
			} else {
				over = mid
			}
		}
		if fits < limit-1024 {
			t.Errorf("of %d bytes only %d are for a value", limit, fits)
		}
		ok(t, "the largest value", put(fits))
		before := ok(t, "read", owner.Read(id))
		for what, a := range map[string]agenttest.Answer{
			"one byte more": put(over),
			"twice as much": put(2 * limit),
			"another value": through.Patch(id, attrs{"more": strings.Repeat("x", 2000)}),
			"a whole put":   through.Put(id, attrs{"v": strings.Repeat("x", limit)}),
			"a new session": through.Create(attrs{"v": strings.Repeat("x", limit)}, ""),
			"append":        through.Do(http.MethodPost, "/v1/sessions/"+id+"/attributes/list/append", map[string]any{"Value": strings.Repeat("x", 2000)}),
		} {
			if a.Status != http.StatusRequestEntityTooLarge || !strings.Contains(a.Error, fmt.Sprint(limit)) {
				t.Errorf("%s: %.200s", what, a)
			}
		}
		after := ok(t, "read", owner.Read(id))
		if after.Version != before.Version || !bytes.Equal(after.Raw[:200], before.Raw[:200]) || len(after.Raw) != len(before.Raw) {
			t.Errorf("what was refused has changed the session: version %d, then %d", before.Version, after.Version)
		}
		for _, m := range c.Members() {
			if a := m.Get(path + "?consistency=stale"); len(a.Raw) != fits {
				t.Errorf("the copy at %s has %d bytes of %d", m.Name, len(a.Raw), fits)
			}
		}
	})
}
