package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
)

func TestGreeting_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bytes16 := func(name string) (b [16]byte) {
			copy(b[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name))
			return b
		}
		g := greeting{
			version: rapid.Byte().Draw(t, "version"),
			tag:     rapid.Byte().Draw(t, "tag"),
			hello: Hello{
				Cluster: bytes16("cluster"), ID: idOf(bytes16("id")), Boot: bytes16("boot"),
				Name: rapid.StringN(0, 80, 255).Draw(t, "name"),
				Wall: time.Unix(0, rapid.Int64().Draw(t, "wall")),
			},
			want: want{id: idOf(bytes16("wanted id")), boot: bytes16("wanted boot")},
		}
		b := append(g.appendTo(nil), "rest"...)
		r := bytes.NewReader(b)
		got, err := readGreeting(iotest.OneByteReader(r))
		if err != nil {
			t.Fatal(err)
		}
		if got != g {
			t.Fatalf("%+v became %+v", g, got)
		}
		if r.Len() != len("rest") {
			t.Fatalf("%d bytes left of what follows", r.Len())
		}
	})
}

func TestJudge(t *testing.T) {
	t.Parallel()
	self := hello("b")
	for name, c := range map[string]struct {
		g      greeting
		reason Reason
		ok     bool
	}{
		"nothing wanted": {greeting{version: version, tag: byte(Call), hello: Hello{Cluster: cluster}}, 0, true},
		"right one":      {greeting{version: version, tag: byte(Bulk), hello: Hello{Cluster: cluster}, want: want{self.ID, self.Boot}}, 0, true},
		"version":        {greeting{version: 2, tag: byte(Call)}, WrongVersion, false},
		"cluster":        {greeting{version: version, tag: byte(Raft), hello: Hello{Cluster: [16]byte{9}}}, WrongCluster, false},
		"member":         {greeting{version: version, tag: byte(Bulk), hello: Hello{Cluster: cluster}, want: want{id: member.NewID()}}, WrongMember, false},
		"boot":           {greeting{version: version, tag: byte(Bulk), hello: Hello{Cluster: cluster}, want: want{self.ID, member.NewBoot()}}, WrongBoot, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if reason, ok := judge(self, c.g); reason != c.reason || ok != c.ok {
				t.Fatalf("%v, %v", reason, ok)
			}
		})
	}
}

func FuzzGreeting(f *testing.F) {
	f.Add(greeting{version: version, tag: byte(Call), hello: hello("a")}.appendTo(nil))
	f.Add([]byte("RNDL\x01\x02\x00\x00"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := readGreeting(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := readGreeting(bytes.NewReader(g.appendTo(nil)))
		if err != nil || again != g {
			t.Fatalf("%+v became %+v, %v", g, again, err)
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, 1, nil, []byte("x")), 2, []byte("ab"), nil), uint8(3))
	f.Add([]byte("\x00\x00\x00\x00"), uint8(1))
	f.Add([]byte("\xff\xff\xff\xff\x01"), uint8(200))
	f.Fuzz(func(t *testing.T, b []byte, chunk uint8) {
		// However the bytes come in, the same frames come out; together they are
		// the bytes read.
		r := newFrameReader(&chunks{b, int(chunk) + 1}, 1000)
		var back []byte
		err := drain(r, func(kind byte, payload []byte) { back = appendFrame(back, kind, nil, payload) })
		if !bytes.HasPrefix(b, back) {
			t.Fatalf("frames %x of %x", back, b)
		}
		if err == io.EOF && len(back) != len(b) {
			t.Fatalf("%d of %d bytes, then %v", len(back), len(b), err)
		}
		if err != io.EOF && err != io.ErrUnexpectedEOF && !errors.Is(err, errBadFrame) {
			t.Fatal(err)
		}
	})
}

func FuzzCallFrames(f *testing.F) {
	f.Add(request{id: 1, method: 2, left: time.Second, body: []byte("x")}.head(nil))
	f.Add(appendResponseHead(nil, 7, "code"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := parseRequest(b); err == nil {
			if r.left < 0 || r.left > maxLeft {
				t.Fatalf("left %v", r.left)
			}
			if got := append(r.head(nil), r.body...); r.left < maxLeft && !bytes.Equal(got, b) {
				t.Fatalf("%x became %x", b, got)
			}
		}
		if id, code, body, err := parseResponse(b); err == nil {
			if got := append(appendResponseHead(nil, id, code), body...); !bytes.Equal(got, b) {
				t.Fatalf("%x became %x", b, got)
			}
		}
		if id, err := parseID(b); err == nil && len(b) < 8 {
			t.Fatalf("id %d of %d bytes", id, len(b))
		}
	})
}

func TestFrameReader_growsOnlyWithWhatCame(t *testing.T) {
	t.Parallel()
	b := appendFrame(nil, 1, nil, make([]byte, 1<<20))
	r := newFrameReader(&chunks{b[:100], 100}, 64<<20)
	if err := drain(r, func(byte, []byte) {}); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if len(r.buf) != smallBuffer {
		t.Fatalf("buffer of %d bytes for 100 received", len(r.buf))
	}
	// And shrinks when the burst is over.
	r = newFrameReader(&chunks{append(b, appendFrame(nil, 1, nil, nil)...), 4 << 20}, 64<<20)
	if err := drain(r, func(byte, []byte) {}); err != io.EOF {
		t.Fatal(err)
	}
	if len(r.buf) > 2*largeBuffer {
		t.Fatalf("buffer of %d bytes kept", len(r.buf))
	}
}

func drain(r *frameReader, f func(kind byte, payload []byte)) error {
	for {
		for {
			kind, payload, ok, err := r.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			f(kind, payload)
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}

// chunks reads at most size bytes at a time.
type chunks struct {
	b    []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.b[:min(len(c.b), c.size)])
	c.b = c.b[n:]
	return n, nil
}
