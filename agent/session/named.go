package session

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
)

// idNamed is the format of a named id: as a minted one, but where that holds
// random bits it holds a keyed hash of a name, from which the slot comes too,
// and it was issued at no time. So every member works out the same one.
const idNamed = 2

// NamedMaxAge is for records that are to live as long as they are used.
const NamedMaxAge = 10 * 365 * 24 * time.Hour

// Name returns the id of what is kept under a name that was not made by the
// cluster, as an application's own session id. Nobody without the key can tell
// the name from it. The record of such an id may be made again after its end,
// and of two states of it the later one counts as a whole: see Merge.
//
// It is made with the oldest key, since it shall stay the same when a newer one
// comes. The keyring must not be empty.
func (k *Keyring) Name(scope string, name []byte) ID {
	var b [idRaw]byte
	b[0], b[1] = idNamed, k.first
	pool := k.macs[k.first]
	m := pool.Get().(hash.Hash)
	m.Reset()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(scope)))
	m.Write([]byte("name"))
	m.Write(n[:])
	m.Write([]byte(scope))
	m.Write(name)
	var full [sha256.Size]byte
	sum := m.Sum(full[:0])
	pool.Put(m)
	binary.BigEndian.PutUint16(b[2:], binary.BigEndian.Uint16(sum[16:])%ring.Slots)
	copy(b[8:idPayload], sum[:16])
	k.sum(k.first, &b, b[idPayload:])
	return ID(idText.EncodeToString(b[:]))
}

// Named reports whether a text has the form of a named id. Such ids are the
// cluster's own: what comes from outside is never one.
func (id ID) Named() bool {
	var b [3]byte
	if len(id) != IDLen {
		return false
	}
	n, err := idText.Decode(b[:], []byte(id[:4]))
	return err == nil && n == 3 && b[0] == idNamed
}

// Issued reports whether a text has the form of an id that users are given,
// without a proof that it is one.
func (id ID) Issued() bool { return len(id) == IDLen && !id.Named() }

// newKeyed returns a pool of hashes keyed with a secret.
func newKeyed(secret []byte) func() any {
	return func() any { return hmac.New(sha256.New, secret) }
}
