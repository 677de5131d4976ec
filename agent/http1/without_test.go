package http1

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// drip is a connection from which a read gets the next piece, and errDry where
// there is none now.
type drip struct {
	net.Conn
	pieces []string
}

var errDry = errors.New("nothing now")

func (d *drip) Read(p []byte) (int, error) {
	if len(d.pieces) == 0 || d.pieces[0] == "" {
		return 0, errDry
	}
	n := copy(p, d.pieces[0])
	d.pieces[0] = d.pieces[0][n:]
	if d.pieces[0] == "" {
		d.pieces = d.pieces[1:]
	}
	return n, nil
}

// A head that comes in pieces, of which a read does not wait for the next, is
// read on where it was, and keeps the time at which it began.
func TestConn_headReadOn(t *testing.T) {
	t.Parallel()
	const head = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	d := &drip{}
	c := Without(d, 64)
	c.Lend(make([]byte, 64))
	var since time.Time
	for i := range head {
		got, err := c.ReadHead(Limits{Head: 1 << 10, Since: since})
		if !errors.Is(err, errDry) {
			t.Fatalf("after %d bytes: %q, %v", i, got, err)
		}
		if i > 0 {
			if since.IsZero() {
				since = c.HeadSince()
			}
			if c.HeadSince().IsZero() || !c.HeadSince().Equal(since) {
				t.Fatalf("the head began at %v, then at %v", since, c.HeadSince())
			}
		}
		d.pieces = []string{head[i : i+1]}
	}
	d.pieces[0] += "rest"
	got, err := c.ReadHead(Limits{Head: 1 << 10, Since: since})
	if err != nil || string(got) != head {
		t.Fatalf("%q, %v", got, err)
	}
	c.Rewind(len(got))
	if c.Buffered() != len(head)+len("rest") {
		t.Errorf("%d bytes are unconsumed after going back", c.Buffered())
	}
	if got, err = c.ReadHead(Limits{Head: 1 << 10}); err != nil || string(got) != head || string(c.Peek()) != "rest" {
		t.Errorf("again %q before %q, %v", got, c.Peek(), err)
	}
}

// A buffer is lent while there is something in it, and the connection goes on in
// another form with what is there.
func TestConn_lentBuffers(t *testing.T) {
	t.Parallel()
	d := &drip{pieces: []string{"abc"}}
	c := Without(d, 16)
	if c.HasBuffer() {
		t.Error("it has a buffer from the start")
	}
	buf := make([]byte, 16)
	c.Lend(buf)
	if err := c.Fill(); err != nil || string(c.Peek()) != "abc" {
		t.Fatalf("%q, %v", c.Peek(), err)
	}
	a, b := net.Pipe()
	defer a.Close()
	c.Become(b, 32)
	go func() { a.Write([]byte("def")) }() // the read below says how it went
	if err := c.Fill(); err != nil || string(c.Peek()) != "abcdef" {
		t.Fatalf("%q, %v", c.Peek(), err)
	}
	c.Discard(c.Buffered())
	if got := c.Strip(); &got[0] != &buf[0] || c.HasBuffer() {
		t.Error("another buffer came back than was lent")
	}
	// It has a larger one for the next head than it should, and gets its own size.
	c.Lend(make([]byte, 1024))
	go func() { a.Write([]byte("GET / HTTP/1.1\r\n" + strings.Repeat("\r\n", 1))) }()
	if _, err := c.ReadHead(Limits{Head: 100}); err != nil {
		t.Fatal(err)
	}
	if len(c.Strip()) != 32 {
		t.Error("the buffer kept its size")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
