package proxy

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A token carries a client's session from the address of a balancer to that of
// the member it is sent to, where no cookie of the other address comes along. It
// is sealed, since an id that stays in a history or a log would be as good as
// the cookie for ever; it is good at one address of one route, for a short time,
// and once.
const (
	tokenParam  = "_rondel"
	tokenFormat = 1
	tokenNonce  = 12
	tokenLife   = 30 * time.Second
	tokenSkew   = 30 * time.Second // of the two members' clocks
	maxToken    = 512
	maxSpent    = 1 << 20 // tokens of the last minute; more are not taken
)

var (
	tokenText   = base64.RawURLEncoding.Strict()
	errToken    = errors.New("no token for this address and time")
	errSpent    = errors.New("token was used before")
	tokenSuffix = []byte(tokenParam + "=")
)

// passport is what a token says.
type passport struct {
	id, tag string
	issued  time.Time
	nonce   [tokenNonce]byte
}

// tokenKeys seal and open tokens. The first one seals.
type tokenKeys []cipher.AEAD

// newTokenKeys makes them of secrets of 32 bytes.
func newTokenKeys(secrets [][]byte) (tokenKeys, error) {
	var keys tokenKeys
	for _, s := range secrets {
		block, err := aes.NewCipher(s)
		if err != nil {
			return nil, fmt.Errorf("key of tokens: %w", err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("key of tokens: %w", err)
		}
		keys = append(keys, aead)
	}
	return keys, nil
}

// audience is what a token is bound to beside its contents.
func audience(route, base string) []byte {
	return fmt.Appendf(nil, "rondel redirect %d\x00%d\x00%s%s", tokenFormat, len(route), route, base)
}

// seal returns a token that brings a session to a base address of a route.
func (k tokenKeys) seal(route, base, id, tag string, now time.Time) (string, bool) {
	if len(k) == 0 || len(id) > 255 || len(tag) != tagLen {
		return "", false
	}
	out := make([]byte, 1+tokenNonce, 160)
	out[0] = tokenFormat
	rand.Read(out[1:])
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, 80), uint64(now.UnixMilli()))
	plain = append(plain, byte(len(id)))
	plain = append(append(plain, id...), tag...)
	out = k[0].Seal(out, out[1:1+tokenNonce], plain, audience(route, base))
	return tokenText.EncodeToString(out), true
}

// open reads a token that was made for this route and base address. It does not
// know whether it was used before.
func (k tokenKeys) open(route, base string, token []byte, now time.Time) (p passport, err error) {
	if len(token) > maxToken {
		return p, errToken
	}
	raw, err := tokenText.AppendDecode(nil, token)
	if err != nil || len(raw) < 1+tokenNonce || raw[0] != tokenFormat {
		return p, errToken
	}
	var plain []byte
	for _, key := range k {
		if plain, err = key.Open(nil, raw[1:1+tokenNonce], raw[1+tokenNonce:], audience(route, base)); err == nil {
			break
		}
	}
	if len(plain) < 9 || len(plain) != 9+int(plain[8])+tagLen {
		return p, errToken
	}
	p.issued = time.UnixMilli(int64(binary.BigEndian.Uint64(plain)))
	if age := now.Sub(p.issued); age > tokenLife || age < -tokenSkew {
		return p, errToken
	}
	copy(p.nonce[:], raw[1:])
	p.id, p.tag = string(plain[9:9+int(plain[8])]), string(plain[9+int(plain[8]):])
	return p, nil
}

// spent remembers the tokens that were used, until they are too old anyway. Only
// genuine ones come here.
type spent struct {
	since time.Time // this agent remembers from then on; in milliseconds, as tokens are dated

	mu   sync.Mutex // guards the rest
	used map[[tokenNonce]byte]time.Time
	next time.Time // when to look for those that are over
}

// spend uses a token up.
func (s *spent) spend(p *passport, now time.Time) error {
	if p.issued.Before(s.since) {
		return errSpent // or maybe not, but the run before this one has taken that along
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.After(s.next) {
		for nonce, until := range s.used {
			if now.After(until) {
				delete(s.used, nonce)
			}
		}
		s.next = now.Add(tokenLife / 4)
	}
	if _, ok := s.used[p.nonce]; ok || len(s.used) >= maxSpent {
		return errSpent
	}
	if s.used == nil {
		s.used = map[[tokenNonce]byte]time.Time{}
	}
	s.used[p.nonce] = p.issued.Add(tokenLife + time.Second)
	return nil
}

// appendToken adds a request target with a token behind it.
func appendToken(dst, target []byte, token string) []byte {
	dst = append(dst, target...)
	sep := byte('?')
	if bytes.IndexByte(target, '?') >= 0 {
		sep = '&'
	}
	dst = append(append(dst, sep), tokenSuffix...)
	return append(dst, token...)
}

// cutToken takes the token off a request target, and leaves that as it was
// before appendToken, byte for byte. Without one token is nil.
func cutToken(target []byte) (clean, token []byte) {
	query := bytes.IndexByte(target, '?')
	at := max(query, bytes.LastIndexByte(target, '&'))
	if query < 0 || at < query {
		return target, nil
	}
	token, ok := bytes.CutPrefix(target[at+1:], tokenSuffix)
	if !ok {
		return target, nil
	}
	return slices.Clip(target[:at]), token
}
