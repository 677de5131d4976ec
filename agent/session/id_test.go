package session

import (
	"encoding/base64"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
)

func TestMint_parsesBack(t *testing.T) {
	t.Parallel()
	k := NewKeyring(testKeys(3))
	now := time.Unix(1_800_000_123, 999)
	form := regexp.MustCompile(`^[A-Za-z0-9_-]{48}$`)
	for slot := range ring.Slot(ring.Slots) {
		id := k.Mint(slot, now)
		p, err := k.Parse(string(id))
		if err != nil || p.Slot != slot || p.Issued.Unix() != now.Unix() {
			t.Fatalf("slot %d came back as %+v, %v", slot, p, err)
		}
		if !form.MatchString(string(id)) {
			t.Fatalf("%q is not %d characters safe in a URL and a cookie", id, IDLen)
		}
	}
}

// TestMint_unique makes 100,000 ids in one slot and second: all differ, and
// beyond the header no two share more than chance allows.
func TestMint_unique(t *testing.T) {
	t.Parallel()
	k := NewKeyring(testKeys(1))
	const n, header = 100_000, 8 // bytes: format, key, slot, time
	seen := make(map[[16]byte]bool, n)
	first, common := [4]byte{}, 4
	var ones [128]int
	for i := range n {
		id := k.Mint(3, time.Unix(1_800_000_000, 0))
		raw, err := base64.RawURLEncoding.DecodeString(string(id))
		if err != nil {
			t.Fatal(err)
		}
		random := [16]byte(raw[header : header+16])
		if seen[random] {
			t.Fatal("an id came twice")
		}
		seen[random] = true
		if i == 0 {
			copy(first[:], random[:])
		}
		for common > 0 && [4]byte(random[:4]) != first && string(random[:common]) != string(first[:common]) {
			common--
		}
		for bit := range ones {
			ones[bit] += int(random[bit/8] >> (bit % 8) & 1)
		}
	}
	if common > 0 {
		t.Errorf("all share %d bytes beyond the header", common)
	}
	for bit, c := range ones {
		if c < n/2-1500 || c > n/2+1500 { // over 9 standard deviations
			t.Errorf("bit %d is set in %d of %d ids", bit, c, n)
		}
	}
}

func TestParse_everyFlippedByteIsRefused(t *testing.T) {
	t.Parallel()
	k := NewKeyring(testKeys(2))
	id := k.Mint(600, time.Unix(1_800_000_000, 0))
	raw, _ := base64.RawURLEncoding.DecodeString(string(id))
	for i := range raw {
		for bit := range 8 {
			b := append([]byte(nil), raw...)
			b[i] ^= 1 << bit
			_, err := k.Parse(base64.RawURLEncoding.EncodeToString(b))
			want := ErrForeignID
			if i == 1 && (b[1] == 0 || b[1] > 2) {
				want = ErrUnknownKey
			}
			if !errors.Is(err, want) {
				t.Fatalf("bit %d of byte %d flipped: %v, want %v", bit, i, err, want)
			}
		}
	}
	for i := range id {
		for c := range 256 {
			b := []byte(id)
			if b[i] = byte(c); string(b) == string(id) {
				continue
			}
			if _, err := k.Parse(string(b)); err == nil {
				t.Fatalf("character %d as %q was accepted", i, rune(c))
			}
		}
	}
}

func TestParse_keys(t *testing.T) {
	t.Parallel()
	old, now := NewKeyring(testKeys(1)), NewKeyring(testKeys(2))
	at := time.Unix(1_800_000_000, 0)
	a, b := old.Mint(1, at), now.Mint(1, at)
	if _, err := now.Parse(string(a)); err != nil {
		t.Errorf("an id of an older key: %v", err)
	}
	if _, err := old.Parse(string(b)); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("an id of a newer key: %v, want ErrUnknownKey", err)
	}
	for _, k := range []*Keyring{nil, NewKeyring(nil)} {
		if _, err := k.Parse(string(a)); !errors.Is(err, ErrUnknownKey) || !k.Empty() {
			t.Errorf("without keys: %v, want ErrUnknownKey", err)
		}
	}
	other := testKeys(1)
	other[0].Secret[5]++
	if _, err := NewKeyring(other).Parse(string(a)); !errors.Is(err, ErrForeignID) {
		t.Errorf("same number, other secret: %v, want ErrForeignID", err)
	}
}
