package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever the order of calls, the bytes taken are the frames accepted, in order.
func TestOutbox_takesWhatWasPushed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 300
		o := newOutbox(limit)
		var want, got []byte
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				body := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "body")
				queued := len(o.buf)
				err := o.push(1, nil, body, rapid.Bool().Draw(t, "flush"))
				if fits := queued == 0 || queued+frameHead+len(body) <= limit; fits != (err == nil) {
					t.Fatalf("%d bytes on %d: %v", len(body), queued, err)
				}
				if err == nil {
					want = appendFrame(want, 1, nil, body)
				}
			},
			"take": func(t *rapid.T) {
				if b := o.take(); b != nil {
					got = append(got, b...)
					o.done()
				}
			},
			"": func(t *rapid.T) {
				if !bytes.Equal(append(bytes.Clone(got), o.buf...), want) {
					t.Fatal("bytes differ")
				}
			},
		})
	})
}

// A ping goes out however much waits, and its time begins when it has left.
func TestOutbox_ping(t *testing.T) {
	t.Parallel()
	o := newOutbox(100)
	o.push(1, nil, make([]byte, 90), true)
	o.take()
	if err := o.push(1, nil, make([]byte, 90), true); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if err := o.push(kindPing, nil, nil, true); err != nil {
		t.Fatal(err)
	}
	o.done()
	if !o.pingSent().IsZero() {
		t.Fatal("sent while it waits")
	}
	o.take()
	if !o.pingSent().IsZero() {
		t.Fatal("sent while it is being written")
	}
	o.done()
	if o.pingSent().IsZero() {
		t.Fatal("not sent though it was written")
	}
}

// rawFunc is a connection of which one write can be watched.
type rawFunc func()

func (f rawFunc) Control(func(uintptr)) error    { return nil }
func (f rawFunc) Read(func(uintptr) bool) error  { return nil }
func (f rawFunc) Write(func(uintptr) bool) error { f(); return nil }

// While flush writes, the writer gets nothing, though it may wake by mistake:
// two writes at once would tear the stream.
func TestOutbox_flushKeepsWriterAway(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	o := newOutbox(1000)
	w := newWriter(here, time.Second)
	w.raw = rawFunc(func() {
		if err := o.push(1, nil, []byte("second"), true); err != nil {
			t.Error(err)
		}
		if b := o.take(); b != nil {
			t.Errorf("the writer got %q", b)
		}
		w.n = 3 // the kernel took no more
	})
	o.attach(w)
	o.take() // the writer sleeps
	o.push(1, nil, []byte("first"), false)
	o.flush()
	select {
	case <-o.wake:
	default:
		t.Fatal("the writer was not woken for the rest")
	}
	if b, want := o.take(), appendFrame(nil, 1, nil, []byte("first"))[3:]; !bytes.Equal(b, want) {
		t.Fatalf("rest %q, not %q", b, want)
	}
	o.done()
	if b := o.take(); !bytes.Equal(b, appendFrame(nil, 1, nil, []byte("second"))) {
		t.Fatalf("then %q", b)
	}
	o.done()
	// The half frame that a lost connection leaves is not sent on the next one.
	w.raw = rawFunc(func() { w.n = 3 })
	o.take()
	o.push(1, nil, []byte("third"), false)
	o.flush()
	o.detach()
	if b := o.take(); b != nil {
		t.Fatalf("after the end: %q", b)
	}
}

// While the writer writes, flush writes nothing, though messages have waited for
// the connection: two writes at once would tear the stream.
func TestOutbox_writerKeepsFlushAway(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	o := newOutbox(1000)
	w := newWriter(here, time.Second)
	w.raw = rawFunc(func() { t.Error("flush wrote beside the writer") })
	o.arm() // as a sender does that waits for something to send
	o.arm()
	o.push(1, nil, []byte("before there was a connection"), false)
	o.attach(w)
	first := appendFrame(nil, 1, nil, []byte("before there was a connection"))
	b := o.take()
	o.push(1, nil, []byte("meanwhile"), false)
	o.flush()
	if !bytes.Equal(b, first) {
		t.Fatalf("the writer got %q, and has %q", first, b)
	}
	o.done()
	if b := o.take(); !bytes.Equal(b, appendFrame(nil, 1, nil, []byte("meanwhile"))) {
		t.Fatalf("then %q", b)
	}
}

// Flushing callers and the writer share one connection with a reader that is
// slower than they are, after much has waited for the connection: nothing is
// lost, doubled or torn.
func TestWriter_flushAndWriterTakeTurns(t *testing.T) {
	t.Parallel()
	l := listenLoopback(t)
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()

	const callers, each, waiting = 4, 3000, 2000
	o := newOutbox(9 << 20)
	body := func(c, i int) []byte {
		b := bytes.Repeat([]byte{byte(c)}, 3000)
		b[1], b[2] = byte(i>>8), byte(i)
		return b
	}
	o.arm() // as a sender does that waits for something to send
	for i := range waiting {
		if err := o.push(1, nil, body(0, i), false); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	w := newWriter(conn, 5*patience)
	o.attach(w)
	wg.Go(func() { w.run(o, &stop) })
	there.SetReadDeadline(time.Now().Add(5 * patience))
	first := make([]byte, 1)
	if _, err := there.Read(first); err != nil { // the writer is at it, and has more than goes at once
		t.Fatal(err)
	}
	for c := range callers {
		wg.Go(func() {
			i := 0
			if c == 0 {
				i = waiting
			}
			for i < each {
				if err := o.push(1, nil, body(c, i), i%2 == 1); errors.Is(err, ErrFull) {
					o.flush()
					runtime.Gosched()
					continue
				}
				i++
				o.flush()
			}
		})
	}
	var next [callers]int
	r := newFrameReader(io.LimitReader(io.MultiReader(bytes.NewReader(first), there), callers*each*(3000+frameHead)), 1<<20)
	if err := drain(r, func(kind byte, p []byte) {
		if i := int(p[1])<<8 | int(p[2]); len(p) != 3000 || kind != 1 || next[p[0]] != i {
			t.Errorf("frame of %d bytes, number %d of caller %d, not %d", len(p), i, p[0], next[p[0]])
		}
		next[p[0]]++
	}); err != io.EOF {
		t.Error(err)
	}
	stop.Store(true)
	o.signal()
	wg.Wait()
}
