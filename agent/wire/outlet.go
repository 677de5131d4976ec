package wire

// Outlet is one lane of one peer, looked up once for many messages. One
// goroutine uses it at a time.
type Outlet struct {
	t    *Transport
	key  senderKey
	sent *sender // takes the messages; nil before the first, and where it may have ended
}

// Outlet returns the way to a peer by a lane, which must be Foreground or Bulk.
// It costs nothing until something is sent.
func (t *Transport) Outlet(to Peer, lane Lane) *Outlet {
	return &Outlet{t: t, key: senderKey{to, lane}}
}

// Send is Transport.Send, but for that it leaves the message waiting until
// Flush.
func (o *Outlet) Send(kind byte, payload []byte) error {
	if s := o.sent; s != nil && 1+len(payload) <= o.t.opts.MaxFrame {
		err := s.out.push(kind, nil, payload, false)
		if err == nil {
			return nil
		}
		if err != errRetired {
			o.t.stats.dropped.Add(1)
			return err
		}
	}
	s, err := o.t.send(o.key, kind, payload, false)
	o.sent = s
	return err
}

// Flush lets go what Send has left waiting.
func (o *Outlet) Flush() {
	if o.sent != nil {
		o.sent.out.flush()
	}
}
