package replicate

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
)

// seedMessages has one message of each kind, with something in every field.
func seedMessages(id session.ID) []Message {
	at := SlotRe{5, 1}
	rec := &session.Record{ID: id, Gen: session.Gen{Re: 1}, Ver: 2, TTL: time.Minute, Created: 5}
	full := &session.Update{ID: id, Full: rec, Left: time.Second, Age: time.Minute}
	delta := &session.Update{
		ID: id, Base: rec.Version(), Next: session.Version{Gen: rec.Gen, Ver: 3},
		Set: []*session.Attr{session.NewAttr("a", []byte("1"), "", false, session.Stamp{HLC: 7, Num: 1})},
		Op:  &session.Op{ID: session.OpID{1}, Ver: 3, At: 1e9},
	}
	items := []Item{{id, rec.Version(), 77, false, true}, {id, rec.Version(), 78, true, false}}
	ids := []session.ID{id, "other"}
	return []Message{
		&Seal{[]SlotRe{at, {6, 2}}}, &SealAck{[]SlotSum{{at, 9}}},
		&Replicate{at, []*session.Update{full, delta}}, &Ack{at, id, rec.Version(), true},
		&Compare{at, ForSync, 3, [session.Buckets]uint64{1, 2, 3}}, &Listing{at, ForRepair, 3, 7, items},
		&Fetch{at, 4, ids}, &Records{at, 4, ids, []*session.Update{full}}, &Discard{at, items},
		&Forward{SlotRe: SlotRe{5, 3}, Handle: 8, Hop: 1, Relay: true, Budget: time.Second, Req: &session.Request{Kind: session.Get, ID: id, Acks: -1}},
		&Reply{8, &session.Response{Status: session.OK, ID: id}}, &TableUpdate{&ring.Delta{Base: 1, Epoch: 2}}, &Stale{true},
		&Touch{9, []TouchItem{{5, id, time.Second}}}, &TouchAck{9}, &DropAsk{[]SlotRe{at}}, &DropOK{[]SlotRe{at}},
		&Offer{at, full}, &OfferAck{at, id, rec.Version()}, &Ping{1}, &Pong{1},
	}
}

func TestMessage_roundTrip(t *testing.T) {
	t.Parallel()
	for _, m := range seedMessages("an id") {
		b := AppendMessage(nil, m, 1e9)
		got, err := DecodeMessage(b, 1e9)
		if err != nil || reflect.TypeOf(got) != reflect.TypeOf(m) || !bytes.Equal(AppendMessage(nil, got, 1e9), b) {
			t.Errorf("%T came back as %+v, %v", m, got, err)
		}
		for i := range b {
			if m, err := DecodeMessage(b[:i], 1e9); err == nil {
				t.Errorf("%T cut at %d of %d was read", m, i, len(b))
			}
		}
		if _, err := DecodeMessage(append(b, 0), 1e9); err == nil {
			t.Errorf("%T with a byte too many was read", m)
		}
	}
}

// FuzzReceive gives a core whatever can be read as a message from a member: it
// may be nonsense, but must break nothing.
func FuzzReceive(f *testing.F) {
	for _, refuse := range []bool{false, true} {
		for _, m := range seedMessages("an id") {
			f.Add(AppendMessage(nil, m, 1e9), refuse)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, refuse bool) {
		m, err := DecodeMessage(b, 2e9)
		if err != nil {
			return
		}
		again := AppendMessage(nil, m, 2e9)
		if m2, err := DecodeMessage(again, 2e9); err != nil || !bytes.Equal(AppendMessage(nil, m2, 2e9), again) {
			t.Fatalf("%T is not the same again: %v", m, err)
		}
		c := newTrio(t, refuse)
		from := c.nodes[2].Self()
		for range 2 {
			c.step(1, func(n *Node, out *Out) { n.Receive(c.now, from, n.Table().Epoch, m, out) })
			c.run(300 * time.Millisecond)
		}
	})
}
