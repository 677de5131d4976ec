package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
)

// ID is a session's id as users see it: 48 characters of base64url, safe in a
// URL and in a cookie. It holds a format version, the number of the key that
// signed it, the slot, the time of issue, 128 random bits and 96 bits of
// HMAC-SHA256 over all before them.
type ID string

// IDLen is the length of an ID's text.
const IDLen = 48

const (
	idFormat  = 1
	idRaw     = 36
	idMacLen  = 12
	idPayload = idRaw - idMacLen
)

// idText is how an id is written. Strict: every id has one text.
var idText = base64.RawURLEncoding.Strict()

var (
	// ErrForeignID means that no cluster of this key made the id.
	ErrForeignID = errors.New("not an id that this cluster issued")
	// ErrUnknownKey means that the id may be good, but is signed with a key
	// that this agent has not got: it needs a newer table to tell.
	ErrUnknownKey = errors.New("id signed with an unknown key")
)

// Parts is what an id tells of itself.
type Parts struct {
	Slot   ring.Slot
	Issued time.Time // by the issuer's clock, to the second
	Named  bool      // made of a name, see Keyring.Name
}

// Keyring makes and verifies ids. It is safe for concurrent use; a new table
// with other keys needs a new Keyring.
type Keyring struct {
	macs  map[uint8]*sync.Pool // of hash.Hash keyed with that secret
	first uint8
	last  uint8
}

// NewKeyring returns a keyring of the table's keys; the last one signs.
func NewKeyring(keys []ring.Key) *Keyring {
	k := &Keyring{macs: make(map[uint8]*sync.Pool, len(keys))}
	for i, key := range keys {
		k.macs[key.ID] = &sync.Pool{New: newKeyed(key.Secret[:])}
		if i == 0 {
			k.first = key.ID
		}
		k.last = key.ID
	}
	return k
}

// Empty reports whether there is no key yet, so that no id can be made.
func (k *Keyring) Empty() bool { return k == nil || len(k.macs) == 0 }

// Mint returns a new id in slot. The keyring must not be empty.
func (k *Keyring) Mint(slot ring.Slot, now time.Time) ID {
	var b [idRaw]byte
	b[0], b[1] = idFormat, k.last
	binary.BigEndian.PutUint16(b[2:], uint16(slot))
	binary.BigEndian.PutUint32(b[4:], uint32(now.Unix()))
	rand.Read(b[8:idPayload])
	k.sum(k.last, &b, b[idPayload:])
	return ID(idText.EncodeToString(b[:]))
}

func (k *Keyring) sum(key uint8, b *[idRaw]byte, out []byte) bool {
	pool := k.macs[key]
	if pool == nil {
		return false
	}
	m := pool.Get().(hash.Hash)
	m.Reset()
	m.Write(b[:idPayload])
	var full [sha256.Size]byte
	copy(out, m.Sum(full[:0])[:idMacLen])
	pool.Put(m)
	return true
}

// Slot returns the slot that a text names if it is an id, without a proof that
// it is one.
func (id ID) Slot() (ring.Slot, bool) {
	var b [6]byte
	if len(id) != IDLen {
		return 0, false
	}
	if _, err := idText.Decode(b[:], []byte(id[:8])); err != nil {
		return 0, false
	}
	h := ring.Slot(binary.BigEndian.Uint16(b[2:]))
	return h, h < ring.Slots
}

// Parse verifies an id and tells its parts. It returns ErrForeignID for
// anything that the cluster did not issue, and ErrUnknownKey where a newer
// table may still prove it. Named ids are not issued to anybody.
func (k *Keyring) Parse(id string) (Parts, error) {
	p, err := k.ParseAny(id)
	if p.Named {
		return Parts{}, ErrForeignID
	}
	return p, err
}

// ParseAny is Parse for named ids too.
func (k *Keyring) ParseAny(id string) (Parts, error) {
	var b [idRaw]byte
	if len(id) != IDLen {
		return Parts{}, ErrForeignID
	}
	if n, err := idText.Decode(b[:], []byte(id)); err != nil || n != idRaw || b[0] != idFormat && b[0] != idNamed {
		return Parts{}, ErrForeignID
	}
	p := Parts{
		Slot:   ring.Slot(binary.BigEndian.Uint16(b[2:])),
		Issued: time.Unix(int64(binary.BigEndian.Uint32(b[4:])), 0),
		Named:  b[0] == idNamed,
	}
	if p.Slot >= ring.Slots {
		return Parts{}, ErrForeignID
	}
	var mac [idMacLen]byte
	if k.Empty() || !k.sum(b[1], &b, mac[:]) {
		return p, fmt.Errorf("key %d: %w", b[1], ErrUnknownKey)
	}
	if subtle.ConstantTimeCompare(mac[:], b[idPayload:]) != 1 {
		return Parts{}, ErrForeignID
	}
	return p, nil
}
