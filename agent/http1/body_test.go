package http1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http/httputil"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// feed is a connection that delivers given pieces, then ends.
type feed struct {
	net.Conn
	pieces [][]byte
}

func (f *feed) Read(p []byte) (int, error) {
	if len(f.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.pieces[0])
	if f.pieces[0] = f.pieces[0][n:]; len(f.pieces[0]) == 0 {
		f.pieces = f.pieces[1:]
	}
	return n, nil
}

func (f *feed) SetReadDeadline(time.Time) error  { return nil }
func (f *feed) SetWriteDeadline(time.Time) error { return nil }

func (f *feed) Write(p []byte) (int, error) { return len(p), nil }

func conn(size int, pieces ...string) *Conn {
	f := &feed{}
	for _, p := range pieces {
		if p != "" {
			f.pieces = append(f.pieces, []byte(p))
		}
	}
	return NewConn(f, size)
}

// drainBody moves a body and returns what goes on and what is left behind it.
func drainBody(c *Conn, b *Body, big []byte) (out, rest string, err error) {
	var all []byte
	for {
		piece, done, err := b.Next(c, big)
		all = append(all, piece...)
		if err != nil {
			return string(all), "", err
		}
		if done {
			break
		}
	}
	for c.Fill() == nil {
	}
	return string(all), string(c.Peek()), nil
}

func TestBody_chunks(t *testing.T) {
	t.Parallel()
	keep := func(n []byte) bool { return !bytes.EqualFold(n, []byte("x-secret")) }
	for name, tc := range map[string]struct {
		in, out, data string
		err           error
	}{
		"one":              {"3\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "abc", nil},
		"none":             {"0\r\n\r\n", "0\r\n\r\n", "", nil},
		"zeros":            {"000\r\n\r\n", "000\r\n\r\n", "", nil},
		"hex":              {"A\r\n0123456789\r\n0\r\n\r\n", "A\r\n0123456789\r\n0\r\n\r\n", "0123456789", nil},
		"extension":        {"3;a=b\r\nabc\r\n0;c\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "abc", nil},
		"spaced extension": {"3; a = \"b c\"\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "abc", nil},
		"space before ;":   {"3 ;a\r\nabc\r\n0\r\n\r\n", "", "", ErrChunk},
		"trailers":         {"0\r\nX-Sum: 1\r\nX-Secret: 2\r\nContent-Length: 3\r\n\r\n", "0\r\nX-Sum: 1\r\n\r\n", "", nil},
		"dropped trailers": {"0\r\nX-Secret: 2\r\n\r\n", "0\r\n\r\n", "", nil},
		"space, no ;":      {"3 \r\nabc\r\n0\r\n\r\n", "", "", ErrChunk},
		"bare LF":          {"3\nabc\r\n0\r\n\r\n", "", "", ErrChunk},
		"bare CR":          {"3\rabc\r\n0\r\n\r\n", "", "", ErrChunk},
		"too long":         {"3\r\nabcd\r\n0\r\n\r\n", "", "", ErrChunk},
		"LF after data":    {"3\r\nabc\n0\r\n\r\n", "", "", ErrChunk},
		"no digits":        {";a\r\nabc\r\n0\r\n\r\n", "", "", ErrChunk},
		"16 digits":        {"0000000000000003\r\nabc\r\n0\r\n\r\n", "", "", ErrChunk},
		"extension, NUL":   {"3;\x00\r\nabc\r\n0\r\n\r\n", "", "", ErrChunk},
		"long extensions":  {"3;" + strings.Repeat("x", maxExtensions) + "\r\nabc\r\n0\r\n\r\n", "", "", ErrChunk},
		"folded trailer":   {"0\r\nA: b\r\n c\r\n\r\n", "", "", ErrTrailer},
		"bad trailer":      {"0\r\nA b\r\n\r\n", "", "", ErrTrailer},
		"trailer, bare LF": {"0\r\nA: b\n\r\n", "", "", ErrTrailer},
		"long trailers":    {"0\r\nA: " + strings.Repeat("x", maxTrailer) + "\r\n\r\n", "", "", ErrTrailer},
		"cut in data":      {"3\r\nab", "", "", io.ErrUnexpectedEOF},
		"cut at the end":   {"3\r\nabc\r\n0\r\n", "", "", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, bare := range []bool{false, true} {
				for cut := 0; cut <= min(len(tc.in), 40); cut++ {
					for _, big := range [][]byte{nil, make([]byte, 1<<17)} {
						c := conn(64, tc.in[:cut], tc.in[cut:]+"REST", "MORE")
						if tc.err == io.ErrUnexpectedEOF {
							c = conn(64, tc.in[:cut], tc.in[cut:])
						}
						var b Body
						b.Begin(Chunked, 0, bare, keep)
						out, rest, err := drainBody(c, &b, big)
						if !errors.Is(err, tc.err) {
							t.Fatalf("cut at %d: error %v, want %v", cut, err, tc.err)
						}
						want := tc.out
						if bare {
							want = tc.data
						}
						if err == nil && (out != want || rest != "RESTMORE" || !b.Done()) {
							t.Fatalf("cut at %d: %q, rest %q", cut, out, rest)
						}
						if err != nil && b.Done() {
							t.Fatal("done although broken")
						}
					}
				}
			}
		})
	}
}

func TestBody_sizedAndUntilClose(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 400, 400).Draw(t, "body")
		cut := rapid.IntRange(0, len(text)).Draw(t, "cut")
		big := make([]byte, rapid.IntRange(0, 500).Draw(t, "big"))
		var b Body
		b.Begin(Sized, int64(len(text)), false, nil)
		out, rest, err := drainBody(conn(64, text[:cut], text[cut:]+"REST"), &b, big)
		if err != nil || out != text || rest != "REST" && len(big) == 0 {
			t.Fatalf("%q rest %q: %v", out, rest, err)
		}
		b.Begin(Sized, int64(len(text)+1), false, nil)
		if _, _, err := drainBody(conn(64, text[:cut], text[cut:]), &b, big); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut short: %v", err)
		}
		b.Begin(UntilClose, 0, false, nil)
		if out, _, err := drainBody(conn(64, text[:cut], text[cut:]), &b, big); err != nil || out != text {
			t.Fatalf("until close: %q %v", out, err)
		}
	})
}

// FuzzChunks holds the chunk reader against net/http's: a body that we pass on
// has the same data there, before and after passing here.
func FuzzChunks(f *testing.F) {
	for _, s := range []string{"3\r\nabc\r\n0\r\n\r\n", "0\r\nA: b\r\n\r\n", "3;x=\"y\"\r\nabc\r\n1\r\nd\r\n0\r\n\r\nREST", "ffffffffffffffff\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5 ;x\r\nhello\r\n0\r\n\r\n"} {
		f.Add([]byte(s), uint16(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, at uint16) {
		cut := int(at) % (len(in) + 1)
		move := func(bare bool) (string, error) {
			var b Body
			b.Begin(Chunked, 0, bare, func([]byte) bool { return true })
			out, _, err := drainBody(conn(64, string(in[:cut]), string(in[cut:])), &b, nil)
			return out, err
		}
		framed, err := move(false)
		data, err2 := move(true)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%q: %v and %v", in, err, err2)
		}
		if err != nil {
			return
		}
		for _, text := range []string{framed, string(in)} {
			got, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(text)))
			if err != nil || string(got) != data {
				t.Fatalf("%q passed as %q: there %q %v, here %q", in, framed, got, err, data)
			}
		}
		if strings.Contains(framed, ";") && !strings.Contains(data, ";") && !strings.Contains(framed, ":") {
			t.Fatalf("extension passed: %q", framed)
		}
	})
}

func TestAppendChunk(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "1\r\n", 15: "f\r\n", 16: "10\r\n", 4096: "1000\r\n"} {
		got := string(AppendChunk(nil, bytes.Repeat([]byte{'x'}, n)))
		if got != want+strings.Repeat("x", n)+"\r\n" {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestReadHead(t *testing.T) {
	t.Parallel()
	const head = "GET / HTTP/1.1\r\nHost: x\r\nA: bcdefghijklmnopqrstuvwxyz\r\n\r\n"
	for cut := range len(head) {
		c := conn(16, "\r\n"+head[:cut], head[cut:]+"body", "\r\n"+head)
		for n := range 2 {
			got, err := c.ReadHead(Limits{Head: 100})
			if err != nil || string(got) != head {
				t.Fatalf("cut at %d: %q %v", cut, got, err)
			}
			if n == 0 {
				var b Body
				b.Begin(Sized, 4, false, nil)
				for !b.Done() {
					if _, _, err := b.Next(c, nil); err != nil {
						t.Fatal(err)
					}
				}
				if string(got) != head {
					t.Fatalf("head changed under its body: %q", got)
				}
			}
		}
		if _, err := c.ReadHead(Limits{Head: 100}); !errors.Is(err, ErrClosed) {
			t.Fatalf("at the end: %v", err)
		}
	}
	for name, tc := range map[string]struct {
		in  string
		err error
	}{
		"over the limit":    {"GET / HTTP/1.1\r\nA: " + strings.Repeat("x", 100) + "\r\n\r\n", ErrHeadSize},
		"whole, over":       {"GET / HTTP/1.1\r\nA: " + strings.Repeat("x", 85) + "\r\n\r\n", ErrHeadSize},
		"long line":         {strings.Repeat("x", 101), ErrLineSize},
		"long line, whole":  {strings.Repeat("x", 101) + "\r\n\r\n", ErrLineSize},
		"bare LF":           {"GET / HTTP/1.1\n", ErrLineFeed},
		"many empty lines":  {"\r\n\r\n\r\n\r\n\r\n\r\n", ErrRequestLine},
		"bare LF for empty": {"GET / HTTP/1.1\r\n\n", ErrLineFeed},
		"cut":               {"GET / HT", io.ErrUnexpectedEOF},
		"nothing":           {"", ErrClosed},
	} {
		if _, err := conn(16, tc.in).ReadHead(Limits{Head: 100}); !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, want %v", name, err, tc.err)
		}
	}
}

func TestPool(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	p := NewPool(PoolOptions{Dial: func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }, Buffer: 64, MaxIdle: func() int { return 2 }})
	defer p.Close()
	dial := func() (*Conn, net.Conn) {
		c, err := p.Dial()
		if err != nil {
			t.Fatal(err)
		}
		s, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return c, s
	}
	now := time.Now()
	a, _ := dial()
	b, peerB := dial()
	c, peerC := dial()
	p.Put(a, now)
	p.Put(b, now)
	p.Put(c, now) // one too many
	peerC.SetReadDeadline(now.Add(time.Minute))
	if _, err := peerC.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("surplus connection: %v", err)
	}
	if _, err := peerB.Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); !b.probe.readable() && time.Now().Before(end); {
	}
	if got := p.Get(now, time.Second); got != a {
		t.Error("a connection with unasked bytes was handed out")
	}
	p.Put(a, now)
	if p.Get(now.Add(2*time.Second), time.Second) != nil {
		t.Error("one that rested too long was handed out")
	}
	p.Sweep(now.Add(2*time.Second), time.Second)
	if p.Idle() != 0 {
		t.Error("sweep left one")
	}
	d, _ := dial()
	p.Close()
	p.Put(d, now)
	if _, err := d.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("returned to a closed pool: %v", err)
	}
}

func TestConn_interrupt(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer there.Close()
	c := NewConn(here, 64)
	defer c.Close()
	c.ReadWithin(time.Now(), time.Hour)
	done := make(chan error, 1)
	go func() { done <- c.Fill() }()
	c.Interrupt()
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	c.Resume()
	go there.Write([]byte("x"))
	if err := c.Fill(); err != nil || string(c.Peek()) != "x" {
		t.Errorf("after resume: %q %v", c.Peek(), err)
	}
}
