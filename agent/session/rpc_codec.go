package session

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/internal/codec"
)

// AppendRequest appends the encoding of a request on its way to the owner.
func AppendRequest(b []byte, q *Request) []byte {
	b = append(b, byte(q.Kind), byte(q.Acks))
	var flags byte
	for i, f := range [...]bool{q.IfMatchAny, q.AutoOp, q.Stale, q.Touch, q.Op != OpID{}} {
		if f {
			flags |= 1 << i
		}
	}
	b = append(b, flags)
	b = codec.AppendBytes(b, q.ID)
	b = codec.AppendBytes(b, q.NewID)
	b = codec.AppendBytes(b, q.Name)
	b = codec.AppendBytes(b, q.Value)
	b = binary.AppendUvarint(b, uint64(q.TTL))
	b = binary.AppendUvarint(b, uint64(q.MaxAge))
	b = codec.AppendBytes(b, q.Group)
	b = codec.AppendBytes(b, q.Principal)
	if q.Op != (OpID{}) {
		b = append(b, q.Op[:]...)
		b = binary.LittleEndian.AppendUint64(b, q.Body)
	}
	b = binary.AppendUvarint(b, uint64(len(q.IfMatch)))
	for _, v := range q.IfMatch {
		b = appendVersion(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(q.Attrs)))
	for i := range q.Attrs {
		b = appendAttr(b, &q.Attrs[i])
	}
	return b
}

// ReadRequest reads what AppendRequest wrote.
func ReadRequest(r *codec.Reader) *Request {
	q := &Request{Kind: Kind(r.Byte()), Acks: int8(r.Byte())}
	flags := r.Byte()
	q.IfMatchAny, q.AutoOp, q.Stale, q.Touch = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	q.ID, q.NewID = ID(r.String(maxID)), ID(r.String(maxID))
	q.Name = r.String(maxName)
	q.Value = slices.Clone(r.Bytes(maxValue))
	q.TTL, q.MaxAge = readDuration(r), readDuration(r)
	q.Group, q.Principal = r.String(maxName), r.String(maxName)
	if flags&16 != 0 {
		copy(q.Op[:], r.Fixed(16))
		q.Body = r.Uint64()
	}
	for range r.Count(4) {
		q.IfMatch = append(q.IfMatch, readVersion(r))
	}
	if n := r.Count(attrMin); n > 0 {
		q.Attrs = make([]Attr, 0, n)
		for range n {
			q.Attrs = append(q.Attrs, readPlainAttr(r))
		}
	}
	if q.Kind < Get || q.Kind > Rotate {
		r.Fail(codec.ErrMalformed)
	}
	return q
}

// AppendResponse appends the encoding of an answer on its way to the agent that
// was asked; now is the sender's clock.
func AppendResponse(b []byte, p *Response, now int64) []byte {
	b = append(b, byte(p.Status))
	var flags byte
	for i, f := range [...]bool{p.Stale, p.Replay, p.Record != nil, p.Attr != nil} {
		if f {
			flags |= 1 << i
		}
	}
	b = append(b, flags)
	b = codec.AppendBytes(b, p.Code)
	b = codec.AppendBytes(b, p.Error)
	b = codec.AppendBytes(b, p.ID)
	b = appendVersion(b, p.Version)
	for _, d := range [...]time.Duration{p.Left, p.Age, p.Idle, p.RetryAfter} {
		b = binary.AppendVarint(b, int64(d))
	}
	b = codec.AppendBytes(b, p.Value)
	b = codec.AppendBytes(b, p.NewID)
	for _, n := range [...]int{p.Length, p.Limit, p.CurrentLength} {
		b = binary.AppendVarint(b, int64(n))
	}
	b = codec.AppendBytes(b, p.LargestAttr)
	b = binary.AppendUvarint(b, uint64(p.Owner))
	b = binary.AppendUvarint(b, uint64(len(p.Replicas)))
	for _, n := range p.Replicas {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if p.Attr != nil {
		b = appendAttr(b, p.Attr)
	}
	if p.Record != nil {
		rec := *p.Record
		rec.Ops = nil // remembered for resends, no part of the answer
		b = AppendRecord(b, &rec, now)
	}
	return b
}

// ReadResponse reads what AppendResponse wrote; now is the receiver's clock.
func ReadResponse(r *codec.Reader, now int64) *Response {
	p := &Response{Status: Status(r.Byte())}
	flags := r.Byte()
	p.Stale, p.Replay = flags&1 != 0, flags&2 != 0
	p.Code, p.Error = r.String(maxName), r.String(maxName)
	p.ID = ID(r.String(maxID))
	p.Version = readVersion(r)
	for _, d := range [...]*time.Duration{&p.Left, &p.Age, &p.Idle, &p.RetryAfter} {
		*d = time.Duration(r.Varint())
	}
	p.Value = slices.Clone(r.Bytes(maxValue))
	p.NewID = ID(r.String(maxID))
	for _, n := range [...]*int{&p.Length, &p.Limit, &p.CurrentLength} {
		*n = int(r.Varint())
	}
	p.LargestAttr = r.String(maxName)
	p.Owner = readNumber(r)
	for range r.Count(1) {
		p.Replicas = append(p.Replicas, readNumber(r))
	}
	if flags&8 != 0 {
		p.Attr = readAttr(r)
	}
	if flags&4 != 0 {
		p.Record = ReadRecord(r, now)
	}
	if p.Status < OK || p.Status > Retry {
		r.Fail(codec.ErrMalformed)
	}
	return p
}
