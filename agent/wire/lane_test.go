package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestSend_arrivesInOrder(t *testing.T) {
	t.Parallel()
	const n = 5000
	sendAll := func(t *testing.T, a, b *node) {
		out := a.Outlet(b.peer, Foreground)
		for i := range n {
			var err error
			if i%3 == 0 {
				err = a.Send(b.peer, Foreground, kindText, text(i))
			} else {
				err = out.Send(kindText, text(i))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		out.Flush()
		b.until(t, "all messages", func() bool { return len(b.messages()) == n })
		for i, m := range b.messages() {
			if m != string(text(i)) {
				t.Fatalf("message %d is %s", i, m)
			}
		}
	}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			n := newMemNet()
			sendAll(t, mem(t, n, hello("a")), mem(t, n, hello("b")))
		})
	})
	t.Run("loopback", func(t *testing.T) {
		t.Parallel()
		sendAll(t, prepare(t, patient(Options{Listener: listenLoopback(t)}), hello("a")).start(t),
			prepare(t, patient(Options{Listener: listenLoopback(t)}), hello("b")).start(t))
	})
}

func TestSend_lanesAreApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := mem(t, n, hello("a"))
		b := prepare(t, Options{Listener: n.listen("b"), Dial: n.dial}, hello("b"))
		release := make(chan struct{})
		b.Handle(kindOther, func(Hello, [][]byte) { <-release })
		b.start(t)
		defer close(release)
		a.Send(b.peer, Bulk, kindOther, nil)
		a.Send(b.peer, Foreground, kindText, []byte("x"))
		b.until(t, "the foreground message", func() bool { return len(b.messages()) == 1 })
	})
}

func TestSend_bigFrames(t *testing.T) {
	t.Parallel()
	o := patient(Options{Listener: listenLoopback(t), MaxFrame: 8 << 20})
	a := prepare(t, o, hello("a")).start(t)
	o.Listener = listenLoopback(t)
	b := prepare(t, o, hello("b")).start(t)
	sizes := []int{0, 1, smallBuffer - 5, smallBuffer, 1 << 20, 8<<20 - 1, 3, largeBuffer, 5 << 20, 7}
	for _, size := range sizes {
		if err := a.Send(b.peer, Bulk, kindText, []byte(strings.Repeat("z", size))); err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
	}
	if err := a.Send(b.peer, Bulk, kindText, make([]byte, 8<<20)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("too large a message: %v", err)
	}
	b.until(t, "big frames", func() bool { return len(b.messages()) == len(sizes) })
	for i, m := range b.messages() {
		if len(m) != sizes[i] {
			t.Fatalf("message %d has %d bytes, not %d", i, len(m), sizes[i])
		}
	}
}

func TestSend_idleConnectionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a, b := mem(t, n, hello("a")), mem(t, n, hello("b"))
		for i := range 3 {
			a.Send(b.peer, Foreground, kindText, text(i))
			if _, err := a.Call(t.Context(), "b", 9, nil); err == nil {
				t.Fatal("no such method")
			}
			time.Sleep(2 * time.Minute)
			if s := *a.senders.Load(); len(s) != 0 {
				t.Fatalf("%d senders after an idle time", len(s))
			}
			b.Transport.mu.Lock()
			if c := len(b.conns); c != 0 {
				t.Errorf("%d connections after an idle time", c)
			}
			b.Transport.mu.Unlock()
		}
		if got, rs := b.messages(), a.reasons(); len(got) != 3 || len(rs) != 0 {
			t.Fatalf("got %q, told %v", got, rs)
		}
		a.stop()
		b.stop()
	})
}

func TestClusters(t *testing.T) {
	t.Parallel()
	none, other := [16]byte{}, [16]byte{2}
	for name, c := range map[string]struct {
		a, b        [16]byte
		call, lanes bool
	}{
		"same":             {cluster, cluster, true, true},
		"both unknown":     {none, none, true, true},
		"caller unknown":   {none, cluster, true, false},
		"answerer unknown": {cluster, none, true, false},
		"different":        {cluster, other, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newMemNet()
				ha, hb := hello("a"), hello("b")
				ha.Cluster, hb.Cluster = c.a, c.b
				a := mem(t, n, ha)
				b := prepare(t, Options{Listener: n.listen("b"), Dial: n.dial}, hb)
				b.HandleCall(1, func(context.Context, Hello, []byte) ([]byte, error) { return nil, nil })
				b.start(t)
				_, err := a.Call(t.Context(), "b", 1, nil)
				var refused *RefusedError
				if (err == nil) != c.call || err != nil && (!errors.As(err, &refused) || refused.Reason != WrongCluster) {
					t.Errorf("call: %v", err)
				}
				a.Send(b.peer, Foreground, kindText, nil)
				synctest.Wait()
				if got := len(b.messages()) == 1; got != c.lanes {
					t.Errorf("message arrived: %v; told %v", got, a.reasons())
				}
				a.stop()
				b.stop()
			})
		})
	}
}

func TestBrokenFrame_costsOneConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a, b := mem(t, n, hello("a")), mem(t, n, hello("b"))
		a.Send(b.peer, Foreground, kindText, []byte("1"))
		b.until(t, "the first message", func() bool { return len(b.messages()) == 1 })
		for _, bad := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff\x01", "GET / HTTP/1.1\r\n\r\n"} {
			for _, lane := range []Lane{Foreground, Bulk, Call, 0} {
				conn, err := n.dial(t.Context(), "b")
				if err != nil {
					t.Fatal(err)
				}
				if lane != 0 {
					if _, err := greet(conn, hello("x"), lane, want{}, time.Second*5); err != nil {
						t.Fatal(err)
					}
				}
				io.WriteString(conn, bad)
				if lane == 0 {
					conn.Close()
					continue
				}
				if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
					t.Fatalf("lane %v after %q: %v", lane, bad, err)
				}
				conn.Close()
			}
		}
		a.Send(b.peer, Foreground, kindText, []byte("2"))
		b.until(t, "the second message", func() bool { return len(b.messages()) == 2 })
		eventually(t, "the count of broken frames", func() bool { return b.Stats().Broken == 12 })
		if rs := a.reasons(); len(rs) != 0 {
			t.Fatalf("told %v", rs)
		}
	})
}

func TestGreeting_slowOnesAreClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		b := mem(t, n, hello("b"))
		conn, err := n.dial(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte("RND"))
		start := time.Now()
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF || time.Since(start) != 2*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		conn.Close()
		b.stop()
	})
}

func TestLane_newConnectionEndsTheOneBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		b := mem(t, n, hello("b"))
		self := hello("a")
		var before net.Conn
		for i := range 5 {
			conn, err := n.dial(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := greet(conn, self, Foreground, want{}, 5*time.Second); err != nil {
				t.Fatal(err)
			}
			conn.Write(appendFrame(nil, kindText, nil, text(i)))
			if before != nil {
				if _, err := before.Read(make([]byte, 1)); err != io.EOF {
					t.Fatalf("the connection before: %v", err)
				}
				before.Close()
			}
			before = conn
		}
		before.Close()
		b.until(t, "the messages", func() bool { return len(b.messages()) == 5 })
	})
}

func TestHandler_getsWhatCameTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		b := prepare(t, Options{Listener: n.listen("b"), Dial: n.dial}, hello("b"))
		b.Handle(kindOther, func(_ Hello, ps [][]byte) {
			b.record(func() { b.got = append(b.got, fmt.Sprintf("%s", ps)) })
		})
		b.start(t)
		conn, err := n.dial(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := greet(conn, hello("a"), Bulk, want{}, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		var all []byte
		for i, kind := range []byte{kindOther, kindOther, 99, kindText, kindOther} {
			all = appendFrame(all, kind, nil, text(i))
		}
		conn.Write(all)
		b.until(t, "the last of them", func() bool { return len(b.messages()) == 3 })
		if got := fmt.Sprint(b.messages()); got != "[[000000 000001] 000003 [000004]]" {
			t.Fatal(got)
		}
	})
}

func TestClose_endsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a, b := mem(t, n, hello("a")), mem(t, n, hello("b"))
		a.Send(b.peer, Foreground, kindText, nil)
		b.until(t, "a message", func() bool { return len(b.messages()) == 1 })
		a.Close()
		a.Close()
		if err := a.Send(Peer{Addr: "c"}, Bulk, kindText, nil); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if err := a.Send(b.peer, Foreground, kindText, nil); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if _, err := a.Call(t.Context(), "b", 1, nil); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

// heldUp is a listener whose Close is held up when the rest has met its end.
type heldUp struct{ net.Listener }

func (l heldUp) Close() error {
	err := l.Listener.Close()
	time.Sleep(time.Second)
	return err
}

func TestClose_isNoFailureOfRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newMemNet()
		a := prepare(t, Options{Listener: heldUp{n.listen("a")}, Dial: n.dial}, hello("a")).start(t)
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		a.stop() // wants no error of Run
	})
}
