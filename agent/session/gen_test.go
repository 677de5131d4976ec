package session

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// The generators that the property tests share. Small ranges everywhere, so
// that equal names, stamps and versions meet often.

var (
	genName  = rapid.SampledFrom([]string{"", "a", "b", "cart", "d", "é\x00"})
	genValue = rapid.SliceOfN(rapid.Byte(), 0, 6)
	genNum   = rapid.Map(rapid.IntRange(0, 3), func(n int) member.Number { return member.Number(n) })
	genStamp = rapid.Custom(func(t *rapid.T) Stamp {
		return Stamp{HLC: rapid.Uint64Range(0, 4).Draw(t, "hlc"), Num: genNum.Draw(t, "num")}
	})
	genVersion = rapid.Custom(func(t *rapid.T) Version {
		g := Gen{Re: rapid.Uint64Range(0, 3).Draw(t, "re")}
		if rapid.Bool().Draw(t, "detached") {
			g.Detach, g.Num = rapid.Uint32Range(0, 2).Draw(t, "detach"), genNum.Draw(t, "genNum")
		}
		return Version{Gen: g, Ver: rapid.Uint64Range(0, 3).Draw(t, "ver")}
	})
	genAttr = rapid.Custom(func(t *rapid.T) *Attr {
		dead := rapid.IntRange(0, 3).Draw(t, "dead") == 0
		if dead {
			return NewAttr(genName.Draw(t, "name"), nil, "", true, genStamp.Draw(t, "stamp"))
		}
		typ := rapid.SampledFrom([]string{"", "text/plain"}).Draw(t, "type")
		return NewAttr(genName.Draw(t, "name"), genValue.Draw(t, "value"), typ, false, genStamp.Draw(t, "stamp"))
	})
	genAttrs = rapid.Map(rapid.SliceOfN(genAttr, 0, 4), func(list []*Attr) []*Attr {
		slices.SortStableFunc(list, func(a, b *Attr) int { return strings.Compare(a.Name, b.Name) })
		return slices.CompactFunc(list, func(a, b *Attr) bool { return a.Name == b.Name })
	})
	genOp = rapid.Custom(func(t *rapid.T) Op {
		return Op{
			ID: opID(rapid.IntRange(0, 5).Draw(t, "op")), Body: rapid.Uint64Range(0, 2).Draw(t, "body"),
			Ver: rapid.Uint64Range(1, 4).Draw(t, "opVer"), At: testNow - int64(rapid.IntRange(0, 5).Draw(t, "at")),
			Auto: rapid.Bool().Draw(t, "auto"), Value: genValue.Draw(t, "opValue"),
		}
	})
	genOps = rapid.Map(rapid.SliceOfNDistinct(genOp, 0, 4, func(o Op) OpID { return o.ID }), func(list []Op) []Op {
		slices.SortStableFunc(list, func(a, b Op) int { return int(a.At - b.At) })
		return list
	})
)

// testNow is the holder's clock in tests: far enough from zero that nothing
// remembered lies before it.
const testNow = int64(24 * time.Hour)

func opID(n int) (id OpID) {
	id[0], id[1], id[15] = byte(n), byte(n>>8), 1
	return id
}

// genRecord draws a state of the session id; about one in five is a tombstone.
func genRecord(id ID) *rapid.Generator[*Record] {
	return rapid.Custom(func(t *rapid.T) *Record {
		v := genVersion.Draw(t, "version")
		r := &Record{
			ID: id, Gen: v.Gen, Ver: v.Ver,
			Created: int64(rapid.IntRange(0, 3).Draw(t, "created")),
			TTL:     time.Duration(rapid.IntRange(0, 2).Draw(t, "ttl")) * time.Minute,
			MaxAge:  time.Duration(rapid.IntRange(0, 2).Draw(t, "maxAge")) * time.Hour,
			Ops:     genOps.Draw(t, "ops"),
		}
		if rapid.IntRange(0, 4).Draw(t, "tombstone") == 0 {
			r.Dead = true
			r.Rotated = ID(rapid.SampledFrom([]string{"", "next", "other"}).Draw(t, "rotated"))
		} else {
			r.Group = rapid.SampledFrom([]string{"", "g"}).Draw(t, "group")
			r.Principal = rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "principal")
			r.Attrs = genAttrs.Draw(t, "attrs")
		}
		r.seal()
		return r
	})
}

func testKeys(n int) []ring.Key {
	keys := make([]ring.Key, n)
	for i := range keys {
		keys[i].ID = uint8(i + 1)
		for k := range keys[i].Secret {
			keys[i].Secret[k] = byte(i*7 + k)
		}
	}
	return keys
}

func jsonAttr(name, text string) Attr { return Attr{Name: name, Value: []byte(text)} }

// testEnv is an Env in which nothing is refused for want of room or of rights.
func testEnv() Env {
	return Env{
		Gen: Gen{Re: 1}, Stamp: Stamp{HLC: 7, Num: 1}, Now: testNow, Wall: 1_700_000_000_000,
		MaxSize: 1 << 20, TTL: 30 * time.Minute, MaxAge: 24 * time.Hour, MayCreate: true,
	}
}

// apply makes a change and fails the test unless it is accepted.
func apply(t testing.TB, rec *Record, req *Request, env Env) (*Record, *Response) {
	t.Helper()
	c, resp := Apply(rec, req, env)
	if c == nil || resp.Status != OK {
		t.Fatalf("kind %d refused: %d %s %s", req.Kind, resp.Status, resp.Code, resp.Error)
	}
	return c.Next, resp
}
