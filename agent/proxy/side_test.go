package proxy

import (
	"net"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/http1"
)

// bounded notes until when it may be written to.
type bounded struct {
	net.Conn
	until time.Time
	soon  func() // called when that is soon
}

func (b *bounded) SetWriteDeadline(at time.Time) error {
	b.until = at
	if !at.IsZero() && time.Until(at) < time.Minute {
		b.soon()
	}
	return nil
}

// An instance may answer before the goroutine that has just passed on the end of
// the body gets to say so. The connection carries another request then, which has
// all the time that it would have over any other.
func TestSide_hurriedConnectionsAreAsGoodAsOthers(t *testing.T) {
	t.Parallel()
	client, _ := net.Pipe()
	instance, _ := net.Pipe()
	s := &side{done: make(chan struct{})}
	to := &bounded{Conn: instance, soon: func() {
		s.finished.Store(1)
		close(s.done)
	}}
	x := &exchange{c: &conn{in: http1.NewConn(client, 16)}}
	x.up = http1.NewConn(to, 16)
	x.up.WriteWithin(time.Now(), time.Hour)
	if !s.end(x) {
		t.Fatal("the connection is not good any more")
	}
	x.up.WriteWithin(time.Now(), time.Hour)
	if left := time.Until(to.until); left < time.Minute {
		t.Errorf("the next request has to be written within %s", left)
	}
}
