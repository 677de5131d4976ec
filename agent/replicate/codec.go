package replicate

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rondel-project/rondel/agent/internal/codec"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// The kinds of message, as they stand in the first byte of its encoding. They
// are never renumbered.
const (
	kindSeal byte = iota + 1
	kindSealAck
	kindReplicate
	kindAck
	kindCompare
	kindListing
	kindFetch
	kindRecords
	kindDiscard
	kindForward
	kindReply
	kindTableUpdate
	kindStale
	kindTouch
	kindTouchAck
	kindDropAsk
	kindDropOK
	kindOffer
	kindOfferAck
	kindPing
	kindPong
)

const (
	maxID = 4 << 10
)

// AppendMessage appends the encoding of m; now is the sender's clock, since ages
// travel and not times.
func AppendMessage(b []byte, m Message, now int64) []byte {
	switch m := m.(type) {
	case *Seal:
		return appendSlotRes(append(b, kindSeal), m.Slots)
	case *SealAck:
		b = append(b, kindSealAck)
		b = binary.AppendUvarint(b, uint64(len(m.Slots)))
		for _, s := range m.Slots {
			b = binary.LittleEndian.AppendUint64(appendSlotRe(b, s.SlotRe), s.Sum)
		}
		return b
	case *Replicate:
		return appendUpdates(appendSlotRe(append(b, kindReplicate), m.SlotRe), m.Updates, now)
	case *Ack:
		b = codec.AppendBytes(appendSlotRe(append(b, kindAck), m.SlotRe), m.ID)
		return codec.AppendBool(session.AppendVersion(b, m.Version), m.NeedFull)
	case *Compare:
		b = appendSlotRe(append(b, kindCompare), m.SlotRe)
		b = binary.AppendUvarint(append(b, byte(m.Purpose)), m.Tag)
		for _, v := range m.Buckets {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return b
	case *Listing:
		b = appendSlotRe(append(b, kindListing), m.SlotRe)
		b = binary.AppendUvarint(append(b, byte(m.Purpose)), m.Tag)
		b = binary.LittleEndian.AppendUint32(b, m.Mask)
		return appendItems(b, m.Items)
	case *Fetch:
		b = binary.AppendUvarint(appendSlotRe(append(b, kindFetch), m.SlotRe), m.Tag)
		return appendIDs(b, m.IDs)
	case *Records:
		b = binary.AppendUvarint(appendSlotRe(append(b, kindRecords), m.SlotRe), m.Tag)
		return appendUpdates(appendIDs(b, m.Asked), m.Updates, now)
	case *Discard:
		return appendItems(appendSlotRe(append(b, kindDiscard), m.SlotRe), m.Items)
	case *Forward:
		b = binary.AppendUvarint(appendSlotRe(append(b, kindForward), m.SlotRe), m.Handle)
		b = codec.AppendBool(append(b, m.Hop), m.Relay)
		b = binary.AppendUvarint(b, uint64(max(m.Budget, 0)))
		return session.AppendRequest(b, m.Req)
	case *Reply:
		return session.AppendResponse(binary.AppendUvarint(append(b, kindReply), m.Handle), m.Resp, now)
	case *TableUpdate:
		return ring.AppendDelta(append(b, kindTableUpdate), m.Table)
	case *Stale:
		return codec.AppendBool(append(b, kindStale), m.Want)
	case *Touch:
		b = binary.AppendUvarint(append(b, kindTouch), m.Seq)
		b = binary.AppendUvarint(b, uint64(len(m.Items)))
		for _, x := range m.Items {
			b = codec.AppendBytes(binary.AppendUvarint(b, uint64(x.Slot)), x.ID)
			b = binary.AppendUvarint(b, uint64(max(x.Left, 0)))
		}
		return b
	case *TouchAck:
		return binary.AppendUvarint(append(b, kindTouchAck), m.Seq)
	case *DropAsk:
		return appendSlotRes(append(b, kindDropAsk), m.Slots)
	case *DropOK:
		return appendSlotRes(append(b, kindDropOK), m.Slots)
	case *Offer:
		return session.AppendUpdate(appendSlotRe(append(b, kindOffer), m.SlotRe), m.Update, now)
	case *OfferAck:
		return session.AppendVersion(codec.AppendBytes(appendSlotRe(append(b, kindOfferAck), m.SlotRe), m.ID), m.Version)
	case *Ping:
		return binary.AppendUvarint(append(b, kindPing), m.Nonce)
	case *Pong:
		return binary.AppendUvarint(append(b, kindPong), m.Nonce)
	}
	panic(fmt.Sprintf("message %T has no encoding", m))
}

// DecodeMessage reads what AppendMessage wrote; now is the receiver's clock. The
// message shares no memory with b.
func DecodeMessage(b []byte, now int64) (Message, error) {
	r := codec.NewReader(b)
	var m Message
	switch kind := r.Byte(); kind {
	case kindSeal:
		m = &Seal{readSlotRes(r)}
	case kindSealAck:
		a := &SealAck{}
		for range r.Count(10) {
			a.Slots = append(a.Slots, SlotSum{readSlotRe(r), r.Uint64()})
		}
		m = a
	case kindReplicate:
		m = &Replicate{readSlotRe(r), readUpdates(r, now)}
	case kindAck:
		m = &Ack{SlotRe: readSlotRe(r), ID: readID(r), Version: session.ReadVersion(r), NeedFull: r.Bool()}
	case kindCompare:
		c := &Compare{SlotRe: readSlotRe(r), Purpose: Purpose(r.Byte()), Tag: r.Uvarint()}
		for i := range c.Buckets {
			c.Buckets[i] = r.Uint64()
		}
		m = c
	case kindListing:
		l := &Listing{SlotRe: readSlotRe(r), Purpose: Purpose(r.Byte()), Tag: r.Uvarint()}
		if f := r.Fixed(4); f != nil {
			l.Mask = binary.LittleEndian.Uint32(f)
		}
		l.Items = readItems(r)
		m = l
	case kindFetch:
		m = &Fetch{readSlotRe(r), r.Uvarint(), readIDs(r)}
	case kindRecords:
		m = &Records{readSlotRe(r), r.Uvarint(), readIDs(r), readUpdates(r, now)}
	case kindDiscard:
		m = &Discard{readSlotRe(r), readItems(r)}
	case kindForward:
		f := &Forward{SlotRe: readSlotRe(r), Handle: r.Uvarint(), Hop: r.Byte(), Relay: r.Bool()}
		f.Budget = readDuration(r)
		f.Req = session.ReadRequest(r)
		m = f
	case kindReply:
		m = &Reply{r.Uvarint(), session.ReadResponse(r, now)}
	case kindTableUpdate:
		d, err := ring.DecodeDelta(r.Fixed(r.Len()))
		if err != nil {
			r.Fail(err)
		}
		m = &TableUpdate{d}
	case kindStale:
		m = &Stale{r.Bool()}
	case kindTouch:
		t := &Touch{Seq: r.Uvarint()}
		for range r.Count(3) {
			t.Items = append(t.Items, TouchItem{readSlot(r), readID(r), readDuration(r)})
		}
		m = t
	case kindTouchAck:
		m = &TouchAck{r.Uvarint()}
	case kindDropAsk:
		m = &DropAsk{readSlotRes(r)}
	case kindDropOK:
		m = &DropOK{readSlotRes(r)}
	case kindOffer:
		m = &Offer{readSlotRe(r), session.ReadUpdate(r, now)}
	case kindOfferAck:
		m = &OfferAck{readSlotRe(r), readID(r), session.ReadVersion(r)}
	case kindPing:
		m = &Ping{r.Uvarint()}
	case kindPong:
		m = &Pong{r.Uvarint()}
	default:
		r.Fail(fmt.Errorf("kind %d: %w", kind, codec.ErrMalformed))
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("replication message: %w", err)
	}
	return m, nil
}

func appendSlotRe(b []byte, s SlotRe) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(s.Slot)), s.Re)
}

func readSlotRe(r *codec.Reader) SlotRe { return SlotRe{readSlot(r), r.Uvarint()} }

func readSlot(r *codec.Reader) ring.Slot {
	v := r.Uvarint()
	if v >= ring.Slots {
		r.Fail(fmt.Errorf("slot %d: %w", v, codec.ErrMalformed))
		return 0
	}
	return ring.Slot(v)
}

func appendSlotRes(b []byte, ss []SlotRe) []byte {
	b = binary.AppendUvarint(b, uint64(len(ss)))
	for _, s := range ss {
		b = appendSlotRe(b, s)
	}
	return b
}

func readSlotRes(r *codec.Reader) (ss []SlotRe) {
	for range r.Count(2) {
		ss = append(ss, readSlotRe(r))
	}
	return ss
}

func readID(r *codec.Reader) session.ID { return session.ID(r.String(maxID)) }

func appendIDs(b []byte, ids []session.ID) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = codec.AppendBytes(b, id)
	}
	return b
}

func readIDs(r *codec.Reader) (ids []session.ID) {
	for range r.Count(1) {
		ids = append(ids, readID(r))
	}
	return ids
}

func appendItems(b []byte, items []Item) []byte {
	b = binary.AppendUvarint(b, uint64(len(items)))
	for i := range items {
		x := &items[i]
		b = session.AppendVersion(codec.AppendBytes(b, x.ID), x.Version)
		b = append(binary.LittleEndian.AppendUint64(b, x.Sum), codec.Flags(x.Dead, x.Apart))
	}
	return b
}

func readItems(r *codec.Reader) (items []Item) {
	n := r.Count(14)
	if n > 0 {
		items = make([]Item, 0, n)
	}
	for range n {
		x := Item{ID: readID(r), Version: session.ReadVersion(r), Sum: r.Uint64()}
		f := r.Flags(2)
		x.Dead, x.Apart = f&1 != 0, f&2 != 0
		items = append(items, x)
	}
	return items
}

func appendUpdates(b []byte, us []*session.Update, now int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(us)))
	for _, u := range us {
		b = session.AppendUpdate(b, u, now)
	}
	return b
}

func readUpdates(r *codec.Reader, now int64) (us []*session.Update) {
	for range r.Count(8) {
		us = append(us, session.ReadUpdate(r, now))
	}
	return us
}

func readDuration(r *codec.Reader) time.Duration {
	d := time.Duration(r.Uvarint())
	if d < 0 {
		r.Fail(fmt.Errorf("a negative duration: %w", codec.ErrMalformed))
	}
	return d
}
