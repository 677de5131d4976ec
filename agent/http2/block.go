package http2

import (
	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// roomForMore is how many times the limit of a header section is read, to
// answer one stream with 431 while the others go on. More ends the connection.
const roomForMore = 4

// field is one field of a header section; HPACK has made strings of them.
type field = hpack.HeaderField

// block is one header section with its frames put together. It is used again
// for the next one.
type block struct {
	id     uint32
	end    bool    // of the stream
	pseudo []field // in front
	fields []field
	size   int // as RFC 9113 counts it
	over   bool
	bad    error // malformed

	limit int
	read  int // encoded bytes
	dec   *hpack.Decoder
}

func (b *block) init(limit int) {
	b.limit = limit
	b.dec = hpack.NewDecoder(4096, b.emit)
	b.dec.SetMaxStringLength(roomForMore * limit)
}

// begin starts a section.
func (b *block) begin(id uint32, end bool) {
	clear(b.pseudo)
	clear(b.fields)
	*b = block{id: id, end: end, pseudo: b.pseudo[:0], fields: b.fields[:0], limit: b.limit, dec: b.dec}
}

// add takes the piece that one frame holds.
func (b *block) add(fragment []byte, last bool) error {
	b.read += len(fragment) + frameHead
	if b.read > roomForMore*b.limit+maxFrame {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	if _, err := b.dec.Write(fragment); err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	if last {
		if err := b.dec.Close(); err != nil {
			return http2.ConnectionError(http2.ErrCodeCompression)
		}
	}
	return nil
}

// emit is called with each field. All must be decoded, since later sections
// refer to them, but only what fits is kept.
func (b *block) emit(f field) {
	b.size += int(f.Size())
	if b.size > b.limit {
		b.over = true
		return
	}
	if b.bad != nil {
		return
	}
	if f.Name != "" && f.Name[0] == ':' {
		switch {
		case len(b.fields) > 0:
			b.bad = errPseudo
		case b.find(f.Name) != nil:
			b.bad = errPseudo
		}
		b.pseudo = append(b.pseudo, f)
	} else {
		if !lowerToken(f.Name) {
			b.bad = errField
		}
		b.fields = append(b.fields, f)
	}
	// A space at either end is what two readers might see differently.
	if v := f.Value; !httpguts.ValidHeaderFieldValue(v) || v != "" && (blank(v[0]) || blank(v[len(v)-1])) {
		b.bad = errField
	}
}

// find returns a pseudo-header field, or nil.
func (b *block) find(name string) *field {
	for i := range b.pseudo {
		if b.pseudo[i].Name == name {
			return &b.pseudo[i]
		}
	}
	return nil
}

func blank(b byte) bool { return b == ' ' || b == '\t' }

func lowerToken(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		if b := name[i]; !httpguts.IsTokenRune(rune(b)) || b >= 'A' && b <= 'Z' {
			return false
		}
	}
	return true
}
