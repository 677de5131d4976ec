package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Whatever bit of a log turns, no entry comes out that was not written, none in
// another's place, and none is left out without a word. Bits that mean nothing
// (padding, the checksums of earlier writes, the library's own time stamps) may
// turn unseen.
func TestJournal_anyFlippedBitIsToldOrMeansNothing(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	var want [][]byte
	j, err := openJournal(from, options(from), options(from).Log)
	if err != nil {
		t.Fatal(err)
	}
	for i := range byte(3) {
		want = append(want, bytes.Repeat([]byte{'a' + i}, 40+int(i)))
		if err := j.write(want[i:], time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	name := lastSegment(from)
	whole, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:len(bytes.TrimRight(whole, "\x00"))+64]
	if err := os.Truncate(filepath.Join(from, name), int64(len(whole))); err != nil {
		t.Fatal(err)
	}

	unseen := 0
	for at := range whole {
		dir := filepath.Join(t.TempDir(), "log")
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(dir, options(dir), options(dir).Log)
		if err != nil {
			continue // told
		}
		var got [][]byte
		err = j.load(func(b []byte, _ time.Time) error { got = append(got, bytes.Clone(b)); return nil })
		for i, g := range got {
			if i >= len(want) || !bytes.Equal(g, want[i]) {
				t.Errorf("offset %d: entry %d is %q", at, i+1, g)
			}
		}
		var told *Damage
		switch {
		case err == nil && len(got) < len(want):
			t.Errorf("offset %d: %d entries of %d, and not a word", at, len(got), len(want))
		case err == nil:
			unseen++
		case !errors.As(err, &told):
			t.Errorf("offset %d: %v", at, err)
		}
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("of %d bytes %d may turn unseen", len(whole), unseen)
}
