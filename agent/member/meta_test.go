package member_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rondel-project/rondel/agent/member"
	"pgregory.net/rapid"
)

func someMeta() member.Meta {
	return member.Meta{
		Cluster: [16]byte{1, 2}, ID: member.NewID(), Boot: member.NewBoot(),
		RPCPort: 8702, HTTPPort: 8700, ProxyPort: 8780, Expect: 3,
		Witness: true, Epoch: 1 << 40, Version: "1.2.3",
	}
}

func TestMeta_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		in := member.Meta{
			Cluster:   [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "cluster")),
			ID:        member.IDFromBytes([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "id"))),
			Boot:      member.Boot(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "boot")),
			RPCPort:   rapid.Uint16().Draw(rt, "rpc"),
			HTTPPort:  rapid.Uint16().Draw(rt, "http"),
			ProxyPort: rapid.Uint16().Draw(rt, "proxy"),
			Expect:    rapid.Uint16().Draw(rt, "expect"),
			Witness:   rapid.Bool().Draw(rt, "witness"),
			Leaving:   rapid.Bool().Draw(rt, "leaving"),
			Departed:  rapid.Bool().Draw(rt, "departed"),
			Epoch:     rapid.Uint64().Draw(rt, "epoch"),
			Version:   rapid.StringMatching(`[0-9.a-z-]{0,24}`).Draw(rt, "version"),
		}
		b, err := in.MarshalBinary()
		if err != nil {
			rt.Fatal(err)
		}
		if len(b) != member.MetaSize || len(b) > 200 {
			rt.Fatalf("%d bytes", len(b))
		}
		var out member.Meta
		if err := out.UnmarshalBinary(b); err != nil {
			rt.Fatal(err)
		}
		if out != in {
			rt.Fatalf("got %+v, want %+v", out, in)
		}
	})
}

func TestMeta_longVersionIsCut(t *testing.T) {
	t.Parallel()
	in := someMeta()
	in.Version = "1.2.3-dev+0123456789012345678901234567890123456789"
	b, err := in.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var out member.Meta
	if err := out.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if out.Version != in.Version[:member.MaxVersionLen] {
		t.Fatalf("got %q", out.Version)
	}
}

func TestMeta_refusesForeignBytes(t *testing.T) {
	t.Parallel()
	good, err := someMeta().MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	longVersion := bytes.Clone(good)
	longVersion[1+16+16+16+8+1+8] = 200
	for name, b := range map[string][]byte{
		"empty":          nil,
		"short":          good[:40],
		"long":           append(bytes.Clone(good), 0),
		"other format":   append([]byte{9}, good[1:]...),
		"version length": longVersion,
	} {
		var m member.Meta
		if err := m.UnmarshalBinary(b); !errors.Is(err, member.ErrInvalidMeta) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := (member.Meta{ID: "nonsense"}).MarshalBinary(); !errors.Is(err, member.ErrInvalidID) {
		t.Errorf("bad id: got %v", err)
	}
}

func FuzzMeta(f *testing.F) {
	good, err := someMeta().MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m member.Meta
		if m.UnmarshalBinary(b) != nil {
			return
		}
		again, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var n member.Meta
		if err := n.UnmarshalBinary(again); err != nil || n != m {
			t.Fatalf("%v: %+v and %+v", err, m, n)
		}
	})
}
