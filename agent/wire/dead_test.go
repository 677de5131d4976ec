package wire

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSend_refusedIsToldAtOnceAndQueueExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		self := hello("b")
		to := Peer{ID: self.ID, Boot: self.Boot, Addr: "b"}
		start := time.Now()
		a.Send(to, Foreground, kindText, []byte("stale"))
		synctest.Wait()
		if rs := a.reasons(); !slices.Equal(rs, []Reason{Refused}) || time.Since(start) != 0 {
			t.Fatalf("after %v: %v", time.Since(start), rs)
		}
		// What waited for more than a second must not arrive; what is fresh must.
		time.Sleep(3 * time.Second)
		b := mem(t, n, self)
		synctest.Wait()
		a.Send(to, Foreground, kindText, []byte("fresh"))
		time.Sleep(100 * time.Millisecond)
		if got := b.messages(); !slices.Equal(got, []string{"fresh"}) {
			t.Fatalf("got %q", got)
		}
		// An idle sender with nothing to say must not dial for ever.
		b.stop()
		time.Sleep(5 * time.Second)
		before := n.dialled("b")
		time.Sleep(30 * time.Second)
		if d := n.dialled("b") - before; d != 0 {
			t.Fatalf("%d dials with nothing to send", d)
		}
		a.stop()
	})
}

func TestSend_messageWaitsForShortRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		self := hello("b")
		a.Send(Peer{ID: self.ID, Boot: self.Boot, Addr: "b"}, Foreground, kindText, []byte("1"))
		time.Sleep(300 * time.Millisecond)
		b := mem(t, n, self)
		time.Sleep(time.Second)
		if got := b.messages(); len(got) != 1 {
			t.Fatalf("got %q", got)
		}
		a.stop()
		b.stop()
	})
}

func TestSend_slowDialDeliversNothingStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		dial := func(ctx context.Context, addr string) (net.Conn, error) {
			time.Sleep(1500 * time.Millisecond)
			return n.dial(ctx, addr)
		}
		a := prepare(t, Options{Listener: n.listen("a"), Dial: dial}, hello("a")).start(t)
		b := mem(t, n, hello("b"))
		a.Send(b.peer, Foreground, kindText, []byte("stale"))
		time.Sleep(2 * time.Second)
		a.Send(b.peer, Foreground, kindText, []byte("fresh"))
		synctest.Wait()
		if got := b.messages(); !slices.Equal(got, []string{"fresh"}) {
			t.Fatalf("got %q", got)
		}
		a.stop()
		b.stop()
	})
}

func TestSend_retiredSenderIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := prepare(t, Options{Listener: n.listen("a"), Dial: n.dial, QueueAge: time.Minute}, hello("a")).start(t)
		b := mem(t, n, hello("b"))
		for i := range 3 {
			a.Send(b.peer, Foreground, kindText, text(i))
			b.until(t, "the message", func() bool { return len(b.messages()) == i+1 })
			// As if it retired between being looked up and being pushed to.
			(*a.senders.Load())[senderKey{b.peer, Foreground}].out.refuse(errRetired)
		}
	})
}

func TestSend_peerDiesWhileIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a, b := mem(t, n, hello("a")), mem(t, n, hello("b"))
		a.Send(b.peer, Foreground, kindText, []byte("x"))
		time.Sleep(5500 * time.Millisecond) // between two pings
		b.stop()
		synctest.Wait()
		// Nobody sent anything since: the broken connection alone must lead to the proof.
		if rs := a.reasons(); !slices.Equal(rs, []Reason{Refused}) {
			t.Fatalf("told %v", rs)
		}
		a.stop()
	})
}

func TestSend_otherBootGetsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		self := hello("b")
		b := mem(t, n, self)
		a.Send(b.peer, Foreground, kindText, []byte("1"))
		synctest.Wait()
		old := b.peer
		b.stop()
		self.Boot[0]++
		b = mem(t, n, self)
		time.Sleep(2 * time.Second)
		for range 3 {
			a.Send(old, Foreground, kindText, []byte("for the old one"))
			time.Sleep(200 * time.Millisecond)
		}
		var refused *RefusedError
		if err := a.Send(old, Foreground, kindText, nil); !errors.As(err, &refused) || refused.Reason != WrongBoot {
			t.Fatalf("send to the old boot: %v", err)
		}
		if err := a.Send(b.peer, Foreground, kindText, []byte("2")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := b.messages(); !slices.Equal(got, []string{"2"}) {
			t.Fatalf("got %q", got)
		}
		if rs := a.reasons(); !slices.Contains(rs, WrongBoot) {
			t.Fatalf("told %v", rs)
		}
		a.stop()
		b.stop()
	})
}

// silent accepts connections, greets, and then neither reads nor writes.
func silent(l net.Listener, self Hello) (stop func()) {
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				welcome(conn, self, time.Minute)
				<-done
			})
		}
	})
	return func() { l.Close(); close(done); wg.Wait() }
}

func TestSend_blackHoleBlocksNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := prepare(t, Options{Listener: n.listen("a"), Dial: n.dial, QueueBytes: 1000}, hello("a")).start(t)
		self := hello("b")
		stop := silent(n.listen("b"), self)
		to := Peer{ID: self.ID, Boot: self.Boot, Addr: "b"}
		start := time.Now()
		full := 0
		for range 100 {
			if errors.Is(a.Send(to, Foreground, kindText, make([]byte, 100)), ErrFull) {
				full++
			}
		}
		if time.Since(start) != 0 || full == 0 {
			t.Fatalf("took %v, %d refused for a full queue", time.Since(start), full)
		}
		time.Sleep(2500 * time.Millisecond)
		if rs := a.reasons(); !slices.Equal(rs, []Reason{NoAnswer}) {
			t.Fatalf("told %v", rs)
		}
		// Dialling hangs now.
		n.hole("b", true)
		a.Send(to, Bulk, kindText, nil)
		time.Sleep(2500 * time.Millisecond)
		if rs := a.reasons(); !slices.Contains(rs[1:], NoAnswer) {
			t.Fatalf("told %v", rs)
		}
		a.stop()
		stop()
	})
}

func TestSend_peerThatGreetsAndClosesIsNotDialledWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		self, l := hello("b"), n.listen("b")
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				welcome(conn, self, time.Minute)
				time.Sleep(time.Millisecond) // or a pipe fails while the other end still greets
				conn.Close()
			}
		})
		a.Send(Peer{ID: self.ID, Boot: self.Boot, Addr: "b"}, Foreground, kindText, nil)
		time.Sleep(10 * time.Second)
		if d := n.dialled("b"); d < 5 || d > 20 {
			t.Fatalf("%d dials in 10 s", d)
		}
		a.stop()
		l.Close()
		wg.Wait()
	})
}

// A peer that reads slowly but steadily is not taken for dead, however much
// waits for it.
func TestSend_slowPeerIsNotDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		b := prepare(t, Options{Listener: n.listen("b"), Dial: n.dial}, hello("b"))
		b.Handle(kindOther, func(_ Hello, ps [][]byte) {
			for range ps {
				time.Sleep(100 * time.Millisecond)
				b.record(func() { b.got = append(b.got, "x") })
			}
		})
		b.start(t)
		for range 100 {
			if err := a.Send(b.peer, Foreground, kindOther, make([]byte, 32<<10)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(40 * time.Second)
		if got, rs := len(b.messages()), a.reasons(); got != 100 || len(rs) != 0 {
			t.Fatalf("got %d, told %v", got, rs)
		}
		a.stop()
		b.stop()
	})
}

// A peer that keeps its connection but stops answering pings is found out even
// though small writes still succeed.
func TestSend_silentPeerOnLoopback(t *testing.T) {
	t.Parallel()
	o := patient(Options{Listener: listenLoopback(t), PingInterval: 20 * time.Millisecond})
	o.PingTimeout = 100 * time.Millisecond
	a := prepare(t, o, hello("a")).start(t)
	l, self := listenLoopback(t), hello("b")
	defer silent(l, self)()
	a.Send(Peer{ID: self.ID, Boot: self.Boot, Addr: l.Addr().String()}, Foreground, kindText, nil)
	a.until(t, "the lack of answers", func() bool { return len(a.reasons()) > 0 })
	if rs := a.reasons(); slices.ContainsFunc(rs, func(r Reason) bool { return r != NoAnswer }) {
		t.Fatalf("told %v", rs)
	}
}

func TestLink_gone(t *testing.T) {
	t.Parallel()
	l := &link{ping: time.Second, patience: 2 * time.Second}
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		sent, looked time.Time
		gone         bool
	}{
		"not sent yet":        {time.Time{}, ago(time.Second), false},
		"sent a moment ago":   {ago(time.Second), ago(time.Second), false},
		"for too long":        {ago(2 * time.Second), ago(time.Second), true},
		"while it was paused": {ago(9 * time.Second), ago(8 * time.Second), false},
		"ever since":          {ago(10 * time.Second), ago(time.Second), true},
	} {
		if got := l.gone(c.sent, c.looked, now); got != c.gone {
			t.Errorf("%s: gone %v", name, got)
		}
	}
}
