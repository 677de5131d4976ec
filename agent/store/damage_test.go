package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// segments returns the log's files, in order.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "log-*", "*.wal"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no segments: %v", err)
	}
	slices.Sort(list)
	return list
}

func TestStore_damageIsFoundAndTold(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	r := start(t, o)
	id := r.waitWhole()
	for i := range uint32(40) {
		r.write(i, i+1)
	}
	killed := copyOf(t, o.Dir)
	r.stop()
	file := segments(t, killed)[0]
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Where the entries are: each value is in its padding.
	at := bytes.Index(whole, bytes.Repeat([]byte{20}, padding))
	if at < 0 {
		t.Fatal("the value is not in the file")
	}
	end := len(bytes.TrimRight(whole, "\x00"))
	cases := map[string]func(b []byte) []byte{
		"a flipped bit in the middle": func(b []byte) []byte { b[at+padding/2] ^= 1; return b },
		"a flipped bit at the end":    func(b []byte) []byte { b[end-padding] ^= 1; return b },
		"cut in the middle":           func(b []byte) []byte { return b[:at] },
		"cut by one entry":            func(b []byte) []byte { clear(b[end-padding-20:]); return b },
		"zeros in the middle":         func(b []byte) []byte { clear(b[at : at+8]); return b },
		"the head gone":               func(b []byte) []byte { clear(b[:32]); return b },
		"nothing left":                func(b []byte) []byte { return nil },
	}
	for name, damage := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Dir = copyOf(t, killed)
			path := segments(t, o.Dir)[0]
			if err := os.WriteFile(path, damage(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			again := start(t, o)
			d := again.report.Damage
			if d == nil || again.report.ID != (ID{}) {
				t.Fatalf("damage was not found: %+v", again.report)
			}
			if filepath.Dir(d.File) != filepath.Dir(path) || d.Offset < 0 || d.Offset > int64(len(whole)) {
				t.Errorf("told of %s at %d, it was in %s", d.File, d.Offset, path)
			}
			if want := filepath.Join(o.Dir, damagedName); again.report.Kept != want {
				t.Errorf("it is said to be in %q now, and is in %s", again.report.Kept, want)
			}
			if why := d.Err.Error(); strings.Count(why, "entry ") > 1 {
				t.Errorf("the reason names its entry more than once: %s", why)
			}
			for key := range uint32(40) {
				if got := again.vals[key%slots][key]; got != 0 && got != key+1 {
					t.Errorf("key %d is %d: never written", key, got)
				}
			}
			if next := again.waitWhole(); next == id {
				t.Error("the old id for what may be less")
			}
			if _, err := os.Stat(filepath.Join(o.Dir, damagedName)); err != nil {
				t.Errorf("the damaged log was not set aside: %v", err)
			}
			again.write(3, 99)
			again.stop()
			last := start(t, o)
			last.want(3, 99)
			if last.report.Damage != nil {
				t.Errorf("still damaged: %v", last.report.Damage)
			}
		})
	}
}

// TestStore_markOfTheEndIsLost: without it a log that was cut short looks whole.
func TestStore_markOfTheEndIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"damaged": func(path string) error { return os.WriteFile(path, make([]byte, 12), 0o600) },
	} {
		for _, entries := range []uint32{0, 10} {
			t.Run(fmt.Sprint(name, entries), func(t *testing.T) {
				t.Parallel()
				o := options(t.TempDir())
				r := start(t, o)
				id := r.waitWhole()
				for i := range entries {
					r.write(i, i+1)
				}
				r.stop()
				ends, err := filepath.Glob(filepath.Join(o.Dir, "log-*", endFile))
				if err != nil || len(ends) != 1 {
					t.Fatalf("the marks: %v, %v", ends, err)
				}
				if err := lose(ends[0]); err != nil {
					t.Fatal(err)
				}
				again := start(t, o)
				if d := again.report.Damage; d == nil || d.File != ends[0] || again.report.ID != (ID{}) {
					t.Errorf("the mark is lost, and the report is %+v", again.report)
				}
				for i := range entries {
					again.want(i, i+1) // proven by their checksums
				}
				if again.waitWhole() == id {
					t.Error("the old id for what may be less")
				}
				again.stop()
				if last := start(t, o); last.report.Damage != nil {
					t.Errorf("still damaged: %v", last.report.Damage)
				}
			})
		}
	}
}

func TestStore_brokenLabels(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{labelFile: "{}", currentFile: "elsewhere"} {
		o := options(t.TempDir())
		r := start(t, o)
		id := r.waitWhole()
		r.write(1, 1)
		r.stop()
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		again := start(t, o)
		if d := again.report.Damage; d == nil || filepath.Base(d.File) != name {
			t.Errorf("%s is broken, and the report is %+v", name, again.report)
		}
		if again.waitWhole() == id {
			t.Error("the old id")
		}
	}
}

func TestJournal_bigRecords(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	open := func() *journal {
		j, err := openJournal(filepath.Join(o.Dir, "log-1"), o, o.Log)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	big := bytes.Repeat([]byte{1, 2, 3, 4, 5}, 2*maxEntry/5+1)
	j := open()
	if err := j.write([][]byte{{1}, big, {2, 3}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	j = open()
	var got [][]byte
	if err := j.load(func(b []byte, _ time.Time) error { got = append(got, bytes.Clone(b)); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || !bytes.Equal(got[0], []byte{1}) || !bytes.Equal(got[1], big) || !bytes.Equal(got[2], []byte{2, 3}) {
		t.Errorf("%d pieces", len(got))
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(uint64(3), encodeEntry(3, time.UnixMilli(1e12), false, []byte("records")).Data)
	f.Add(uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, index uint64, b []byte) {
		l := encodeEntry(index, time.UnixMilli(12), index%2 == 0, b)
		at, more, records, err := decodeEntry(index, l)
		if err != nil || at.UnixMilli() != 12 || more != (index%2 == 0) || !bytes.Equal(records, b) {
			t.Fatalf("%v %q %v", at, records, err)
		}
		if _, _, _, err := decodeEntry(index+1, l); err == nil {
			t.Fatal("an entry in another's place")
		}
		l.Data = b
		if _, _, records, err := decodeEntry(index, l); err == nil && len(records) > len(b) {
			t.Fatal("more than there is")
		}
	})
}

func FuzzParseLabel(f *testing.F) {
	f.Add([]byte(`{"Store":"000102030405060708090a0b0c0d0e0f","Sync":"always","Kernel":"k","Clean":true}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, id, err := parseLabel(b); err != nil && (id != ID{} || !errors.Is(err, errLabel)) {
			t.Fatalf("%v %v", id, err)
		}
	})
}

func FuzzParseCurrent(f *testing.F) {
	f.Add([]byte("log-00000001\nm1\n"))
	f.Add([]byte("log-1"))
	f.Add([]byte("../log-1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, _, ok := parseCurrent(b)
		if ok != (name != "") || ok && (filepath.Base(name) != name || !strings.HasPrefix(name, logPrefix)) {
			t.Fatalf("%q, %v", name, ok)
		}
	})
}
