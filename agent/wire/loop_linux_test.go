package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/internal/netloop"
)

// looped prepares a node whose foreground lanes are read in event loops.
func looped(t *testing.T, self Hello) *node {
	t.Helper()
	pool := netloop.NewPool(netloop.Options{})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return prepare(t, patient(Options{Listener: listenLoopback(t), Loops: pool, MaxFrame: 8 << 20}), self)
}

// dialLane greets a node as another one's foreground lane.
func dialLane(t *testing.T, n *node, self Hello) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", n.peer.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := greet(conn, self, Foreground, want{}, patience); err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// wantEnd waits for the other side to end a connection of dialLane.
func wantEnd(t *testing.T, conn net.Conn, which string) {
	t.Helper()
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%s: the connection goes on: %v", which, err)
	}
}

func TestLoopedLane_arrivesInOrder(t *testing.T) {
	t.Parallel()
	a, b := looped(t, hello("a")).start(t), looped(t, hello("b")).start(t)
	const n = 5000
	for i := range n {
		if err := a.Send(b.peer, Foreground, kindText, text(i)); err != nil {
			t.Fatal(err)
		}
	}
	b.until(t, "all messages", func() bool { return len(b.messages()) == n })
	for i, m := range b.messages() {
		if m != string(text(i)) {
			t.Fatalf("message %d is %s", i, m)
		}
	}
	b.Send(a.peer, Foreground, kindText, []byte("back"))
	a.until(t, "the way back", func() bool { return len(a.messages()) == 1 })
}

func TestLoopedLane_framesInPieces(t *testing.T) {
	t.Parallel()
	b := looped(t, hello("b")).start(t)
	conn := dialLane(t, b, hello("a"))
	large := strings.Repeat("z", 3<<20)
	var all []byte
	for _, m := range []string{"", "x", large, "y"} {
		all = appendFrame(all, kindText, nil, []byte(m))
	}
	for i := range 20 { // the first frames a byte at a time
		conn.Write(all[i : i+1])
	}
	conn.Write(all[20:])
	b.until(t, "all messages", func() bool { return len(b.messages()) == 4 })
	if got := b.messages(); got[1] != "x" || got[2] != large || got[3] != "y" {
		t.Errorf("messages of %d, %d, %d, %d bytes", len(got[0]), len(got[1]), len(got[2]), len(got[3]))
	}
	conn.Write(appendFrame(nil, kindPing, nil, nil))
	if _, err := io.ReadFull(conn, make([]byte, frameHead)); err != nil {
		t.Errorf("the answer to a ping: %v", err)
	}
}

func TestLoopedLane_brokenFramesCostOneConnection(t *testing.T) {
	t.Parallel()
	b := looped(t, hello("b")).start(t)
	good := dialLane(t, b, hello("a"))
	for i, bad := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff\x01", "GET / HTTP/1.1\r\n\r\n"} {
		conn := dialLane(t, b, hello("x"))
		conn.Write(append(appendFrame(nil, kindText, nil, []byte("before")), bad...))
		wantEnd(t, conn, fmt.Sprintf("after %q", bad))
		eventually(t, "the count of broken frames", func() bool { return b.Stats().Broken == uint64(i+1) })
	}
	good.Write(appendFrame(nil, kindText, nil, []byte("good")))
	b.until(t, "the good ones' messages", func() bool { return len(b.messages()) == 4 })
}

func TestLoopedLane_newConnectionEndsTheOneBefore(t *testing.T) {
	t.Parallel()
	b := looped(t, hello("b")).start(t)
	self := hello("a")
	var before net.Conn
	for i := range 5 {
		conn := dialLane(t, b, self)
		conn.Write(appendFrame(nil, kindText, nil, text(i)))
		if before != nil {
			wantEnd(t, before, "the one before")
		}
		b.until(t, "the message", func() bool { return len(b.messages()) == i+1 })
		before = conn
	}
	if got := fmt.Sprint(b.messages()); got != "[000000 000001 000002 000003 000004]" {
		t.Error(got)
	}
	b.stop()
	wantEnd(t, before, "a stopped node's")
}
