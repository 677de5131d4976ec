package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/member"
)

// Reasons for which an agent is refused by another one, or refuses it. Both
// sides find them with errors.Is.
var (
	ErrNameTaken      = errors.New("another member has this node name (choose another with -node)")
	ErrOtherCluster   = errors.New("it belongs to another cluster")
	ErrTheyEncrypt    = errors.New("it encrypts gossip and this agent does not: set encrypt here")
	ErrWeEncrypt      = errors.New("this agent encrypts gossip and it does not: set encrypt there")
	ErrKeysDiffer     = errors.New("the gossip keys differ: give both the same encrypt key")
	ErrUnknownDialect = errors.New("it does not speak rondel's gossip, or another version of it")

	errSelf      = errors.New("it is this agent itself")
	errOldPlace  = errors.New("its former address or run is still thought alive there")
	errNoEntry   = errors.New("it does not know that entry")
	errBadAnswer = errors.New("its answer is malformed")
)

// Each connection starts with a frame from the one who dials and one in
// answer, so that agents which cannot go together part at once, with a reason
// that both can print, before either has told the other anything else:
//
//	magic 4 | version 1 | kind 1 | flags 1 | nonce 12 | length 4 | body
//
// The body is sealed with the gossip key where there is one.
const (
	helloMagic   = "RGSP"
	helloVersion = 1
	helloHead    = 4 + 1 + 1 + 1 + 12 + 4
	maxHello     = 4 << 10
	maxReply     = 16 << 20

	flagSealed = 1
)

// Kinds of hello.
const (
	helloGossip = 1 // memberlist's stream follows
	helloAsk    = 2 // how do you see me?
	helloFetch  = 3 // send me an entry
)

// Codes of an answer.
const (
	replyOK byte = iota
	replyDialect
	replyWeEncrypt   // the one who answers encrypts
	replyTheyEncrypt // the one who asked encrypts
	replyKeys
	replyCluster
	replyName
	replyOldPlace
	replySelf
	replyNoEntry
)

func replyError(code byte) error {
	switch code {
	case replyOK:
		return nil
	case replyWeEncrypt:
		return ErrTheyEncrypt
	case replyTheyEncrypt:
		return ErrWeEncrypt
	case replyKeys:
		return ErrKeysDiffer
	case replyCluster:
		return ErrOtherCluster
	case replyName:
		return ErrNameTaken
	case replyOldPlace:
		return errOldPlace
	case replySelf:
		return errSelf
	case replyNoEntry:
		return errNoEntry
	}
	return ErrUnknownDialect
}

// hello is how an agent introduces itself.
type hello struct {
	kind   byte
	name   string
	addr   netip.AddrPort
	meta   member.Meta
	target member.ID // of helloFetch
}

func (h hello) encode() ([]byte, error) {
	meta, err := h.meta.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b := codec.AppendBytes(nil, meta)
	b = codec.AppendBytes(b, h.name)
	b = appendAddrPort(b, h.addr)
	id := h.target.Bytes()
	return append(b, id[:]...), nil
}

func decodeHello(kind byte, b []byte) (hello, error) {
	r := newReader(b)
	h := hello{kind: kind}
	if h.meta.UnmarshalBinary(r.bytes()) != nil {
		r.Fail(errMalformed)
	}
	h.name = r.text()
	h.addr = r.addrPort()
	h.target = member.IDFromBytes(r.Array16())
	if kind < helloGossip || kind > helloFetch || checkName(h.name) != nil || !h.addr.IsValid() {
		r.Fail(errMalformed)
	}
	return h, r.err()
}

// reply is the answer. Detail names the other side for people, cluster is the
// one it is in; seen and boot tell how it sees the one who asked; entry
// answers helloFetch.
type reply struct {
	detail  string
	cluster [16]byte
	seen    member.Status
	boot    member.Boot
	entry   []byte
}

func (p reply) encode() []byte {
	b := codec.AppendBytes(nil, p.detail)
	b = append(b, p.cluster[:]...)
	b = append(b, byte(p.seen))
	b = append(b, p.boot[:]...)
	return codec.AppendBytes(b, p.entry)
}

func decodeReply(b []byte) (reply, error) {
	r := newReader(b)
	p := reply{detail: r.text(), cluster: r.Array16(), seen: member.Status(r.Byte()), boot: r.Array16(), entry: r.bytes()}
	return p, r.err()
}

// seals encrypts and opens the bodies of frames; without keys it passes them.
type seals struct{ keys func() [][]byte }

func (s seals) on() bool { return len(s.keys()) > 0 }

func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func frameHead(kind, flags byte) []byte {
	return append([]byte(helloMagic), helloVersion, kind, flags)
}

// writeFrame sends a frame, sealed if sealed is asked for.
func (s seals) writeFrame(w io.Writer, kind byte, sealed bool, body []byte) error {
	var flags byte
	if sealed {
		flags = flagSealed
	}
	head := frameHead(kind, flags)
	var nonce [12]byte
	if sealed {
		rand.Read(nonce[:])
		a, err := aead(s.keys()[0])
		if err != nil {
			return err
		}
		body = a.Seal(nil, nonce[:], body, head)
	}
	b := append(head, nonce[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	_, err := w.Write(append(b, body...))
	return err
}

type frame struct {
	kind   byte
	sealed bool
	nonce  []byte
	body   []byte
	head   []byte
}

// readFrame reads a frame of at most limit bytes, still sealed.
func readFrame(r io.Reader, limit uint32) (frame, error) {
	// The magic is read first: a stranger that sends less than a frame and
	// waits is told apart at once.
	head := make([]byte, helloHead)
	if _, err := io.ReadFull(r, head[:4]); err != nil {
		return frame{}, err
	}
	if string(head[:4]) != helloMagic {
		return frame{}, ErrUnknownDialect
	}
	if _, err := io.ReadFull(r, head[4:]); err != nil {
		return frame{}, err
	}
	if head[4] != helloVersion || head[6]&^flagSealed != 0 {
		return frame{}, ErrUnknownDialect
	}
	n := binary.BigEndian.Uint32(head[19:])
	if n > limit {
		return frame{}, fmt.Errorf("frame of %d bytes: %w", n, errMalformed)
	}
	// Grown as it comes, so that a length alone does not take memory.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(n)); err != nil {
		return frame{}, err
	}
	return frame{kind: head[5], sealed: head[6] == flagSealed, nonce: head[7:19], body: body.Bytes(), head: head[:7]}, nil
}

// open returns the body in the clear, or ErrKeysDiffer.
func (s seals) open(f frame) ([]byte, error) {
	if !f.sealed {
		return f.body, nil
	}
	for _, key := range s.keys() {
		a, err := aead(key)
		if err != nil {
			continue
		}
		if body, err := a.Open(nil, f.nonce, f.body, f.head); err == nil {
			return body, nil
		}
	}
	return nil, ErrKeysDiffer
}
