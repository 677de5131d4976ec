package http2

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func TestServer_requestsAsHTTP1(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, ServerOptions{})
	p.headers(1, true, get("/a%2Fb//c?x=%zz;y", "cookie", "a=1", "x", "y", "cookie", "b=2", "te", "trailers")...)
	if got := p.answer(1); !strings.HasSuffix(got, "GET /a%2Fb//c?x=%zz;y x 0 Cookie=a=1; b=2 Te=trailers") {
		t.Errorf("got %q", got)
	}
	p.headers(3, false, ":method", "POST", ":scheme", "http", ":path", "/", "host", "h:80", "content-length", "5")
	p.fr.WriteData(3, false, []byte("hel"))
	p.fr.WriteDataPadded(3, false, []byte("l"), make([]byte, 7))
	p.fr.WriteData(3, true, []byte("o"))
	if got := p.answer(3); !strings.HasSuffix(got, "POST / h:80 5 Content-Length=5") {
		t.Errorf("got %q", got)
	}
	p.headers(5, false, get("/chunks")...)
	p.fr.WriteData(5, false, []byte("abc"))
	p.headers(5, true, "x-trailer", "dropped")
	if got, want := p.answer(5), ":status=103 link=x :status=200 x-up=A GET /chunks x 3x-sum=7 "; got != want {
		t.Errorf("got %q", got)
	}
	// An answer before the request's end ends both.
	p.headers(7, false, get("/early")...)
	if got := p.answer(7); got != ":status=413 content-length=2 no" {
		t.Errorf("got %q", got)
	}
	if got := p.answer(7); got != "reset NO_ERROR" {
		t.Errorf("got %q", got)
	}
}

func TestServer_malformedRequests(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, ServerOptions{})
	id := uint32(1)
	for _, c := range [][]string{
		get("/", "connection", "close"), get("/", "transfer-encoding", "chunked"), get("/", "upgrade", "websocket"),
		get("/", "keep-alive", "1"), get("/", "proxy-connection", "x"), get("/", "te", "gzip"), get("/", "te", "trailers, gzip"),
		get("/", "Upper", "1"), get("/", "a b", "1"), get("/", "", "1"), get("/", "x", "a\r\nb: c"), get("/", "x", "a\x00"), get("/", "x", " a"),
		get("/", "host", "y"), get("/", "content-length", "5"), get("/", "content-length", "+0"), get("/", "content-length", "0, 0"),
		get(""), get("x"), get("http://x/"), get("/a b"), get("*"), get("/", ":path", "/"), get("/", ":unknown", "1"), get("/", "x", "1", ":late", "1"),
		{":method", "GET", ":path", "/", ":authority", "x"}, {":scheme", "http", ":path", "/"}, {":method", "GET", ":scheme", "http"},
		{":method", "G ET", ":scheme", "http", ":path", "/"}, {":method", "CONNECT", ":authority", "x", ":path", "/", ":scheme", "http"},
		{":method", "GET", ":scheme", "http", ":path", "/", ":authority", ""}, get("/", ":protocol", "websocket"), get("/", ":status", "200"),
	} {
		p.headers(id, true, c...)
		if got := p.answer(id); got != "reset PROTOCOL_ERROR" {
			t.Errorf("%q: %s", c, got)
		}
		id += 2
	}
	// A body of another length, and bytes behind the end.
	p.headers(id, false, get("/hang", "content-length", "3")...)
	p.fr.WriteData(id, false, []byte("four"))
	if got := p.answer(id); got != "reset PROTOCOL_ERROR" {
		t.Errorf("too long: %s", got)
	}
	id += 2
	p.headers(id, false, get("/hang", "content-length", "3")...)
	p.fr.WriteData(id, true, []byte("ab"))
	if got := p.answer(id); got != "reset PROTOCOL_ERROR" {
		t.Errorf("too short: %s", got)
	}
	id += 2
	p.headers(id, true, get("/hang")...)
	p.fr.WriteData(id, true, []byte("ab"))
	if got := p.answer(id); got != "reset STREAM_CLOSED" {
		t.Errorf("behind the end: %s", got)
	}
	id += 2
	p.headers(id, true, get("/")...)
	if got := p.answer(id); !strings.Contains(got, ":status=200") {
		t.Errorf("the connection: %s", got)
	}
}

func TestServer_brokenConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(p *peer)
		want string
	}{
		"even stream":   {func(p *peer) { p.headers(2, true, get("/")...) }, "PROTOCOL_ERROR"},
		"data on idle":  {func(p *peer) { p.fr.WriteData(1, true, nil) }, "PROTOCOL_ERROR"},
		"reset of idle": {func(p *peer) { p.fr.WriteRSTStream(1, 0) }, "PROTOCOL_ERROR"},
		"push": {func(p *peer) {
			p.fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, EndHeaders: true})
		}, "PROTOCOL_ERROR"},
		"window": {func(p *peer) { p.fr.WriteWindowUpdate(0, maxWindow) }, "FLOW_CONTROL_ERROR"},
		"compression": {func(p *peer) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true})
		}, "COMPRESSION_ERROR"},
		"frame in block": {func(p *peer) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block(get("/")...)})
			p.fr.WritePing(false, [8]byte{})
		}, "PROTOCOL_ERROR"},
		"large frame":    {func(p *peer) { p.fr.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, maxFrame+1)) }, "FRAME_SIZE_ERROR"},
		"settings":       {func(p *peer) { p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}) }, "FLOW_CONTROL_ERROR"},
		"pings":          {func(p *peer) { flood(p, func() error { return p.fr.WritePing(false, [8]byte{}) }) }, "ENHANCE_YOUR_CALM"},
		"settings flood": {func(p *peer) { flood(p, func() error { return p.fr.WriteSettings() }) }, "ENHANCE_YOUR_CALM"},
		"priorities":     {func(p *peer) { flood(p, func() error { return p.fr.WritePriority(1, http2.PriorityParam{}) }) }, "ENHANCE_YOUR_CALM"},
		"continuations": {func(p *peer) {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.block(get("/")...)})
			flood(p, func() error { return p.fr.WriteContinuation(1, false, nil) })
		}, "ENHANCE_YOUR_CALM"},
		"empty data": {func(p *peer) {
			p.headers(1, false, get("/hang")...)
			flood(p, func() error { return p.fr.WriteData(1, false, nil) })
		}, "ENHANCE_YOUR_CALM"},
		"rapid reset": {func(p *peer) {
			id := uint32(1)
			flood(p, func() error {
				p.headers(id, true, get("/hang")...)
				err := p.fr.WriteRSTStream(id, http2.ErrCodeCancel)
				id += 2
				return err
			})
		}, "ENHANCE_YOUR_CALM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := serve(t, ServerOptions{Streams: 100})
			wrote := make(chan struct{})
			reader := &peer{t: t, nc: p.nc, fr: p.fr, mute: true}
			go func() { defer close(wrote); c.do(p) }()
			defer func() { p.nc.Close(); <-wrote }()
			// A connection that breaks while the client still writes may lose the
			// farewell; that it breaks is what counts.
			if got := reader.answer(1 << 30); got != "goaway "+c.want && !(strings.Contains(got, "reset by peer") && c.want == "ENHANCE_YOUR_CALM") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// flood does something over and over, as fast as it can be sent, until the
// connection breaks.
func flood(p *peer, do func() error) {
	for {
		var all bytes.Buffer
		p.fr = http2.NewFramer(&all, nil)
		p.fr.AllowIllegalWrites = true
		for range 20_000 {
			do()
		}
		if _, err := p.nc.Write(all.Bytes()); err != nil {
			return
		}
	}
}

// A header section over the limit costs its stream alone.
func TestServer_largeHeaderSections(t *testing.T) {
	t.Parallel()
	p, s := serve(t, ServerOptions{})
	told := make(chan int, 3)
	s.mu.Lock()
	s.opt.TooLarge = func(size int) { told <- size }
	s.mu.Unlock()
	p.headers(1, true, get("/", "cookie", strings.Repeat("a", 20<<10))...)
	if got := p.answer(1); got != ":status=431 content-length=0 " {
		t.Errorf("got %q", got)
	}
	if size := <-told; size < 20<<10 {
		t.Errorf("size %d", size)
	}
	many := []string{}
	for n := range 600 {
		many = append(many, fmt.Sprint("x-", n), "v")
	}
	p.headers(3, false, get("/", many...)...)
	if got := p.answer(3); got != ":status=431 content-length=0 " {
		t.Errorf("got %q", got)
	}
	p.headers(5, true, get("/", "cookie", strings.Repeat("a", 10<<10))...)
	if got := p.answer(5); !strings.Contains(got, ":status=200") {
		t.Errorf("got %.100q", got)
	}
	p.headers(7, true, get("/", "cookie", strings.Repeat("a", 100<<10))...)
	if got := p.answer(7); !strings.HasPrefix(got, "goaway") {
		t.Errorf("got %q", got)
	}
}

func TestServer_refusesMoreStreamsThanAllowed(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, ServerOptions{Streams: 3})
	for id := uint32(1); id < 9; id += 2 {
		p.headers(id, false, get("/hang")...)
	}
	if got := p.answer(7); got != "reset REFUSED_STREAM" {
		t.Errorf("got %q", got)
	}
}

// What is sent waits for the client's windows, and what is received for whoever
// reads.
func TestServer_windows(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, ServerOptions{})
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
	p.headers(1, true, get("/abc")...)
	var got []byte
	for len(got) < 12 {
		f, err := p.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := f.(*http2.DataFrame); ok && len(d.Data()) > 0 {
			if len(d.Data()) > 3 {
				t.Fatalf("%q is more than the window", d.Data())
			}
			got = append(got, d.Data()...)
			p.fr.WriteWindowUpdate(1, uint32(len(d.Data())))
		}
	}
	if string(got) != "GET /abc x 0" {
		t.Errorf("got %q", got)
	}
	// Nobody reads this body: no more than the window is taken.
	p.headers(3, false, get("/early")...)
	if got := p.answer(3); !strings.HasPrefix(got, ":status=413") {
		t.Errorf("got %q", got)
	}
}

func TestServer_leavesWhenIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const idle = 10 * time.Second
		in, nc := net.Pipe()
		p, _ := serveOn(t, in, nc, ServerOptions{Idle: idle})
		p.headers(1, true, get("/")...)
		if got := p.answer(1); !strings.Contains(got, ":status=200") {
			t.Errorf("before: %q", got)
		}
		answered := time.Now()
		if got := p.answer(99); got != "goaway NO_ERROR" || time.Since(answered) != idle {
			t.Errorf("after %s: %q", time.Since(answered), got)
		}
		if _, err := p.fr.ReadFrame(); err != io.EOF {
			t.Errorf("in the end: %v", err)
		}
	})
}

func TestServer_leavesWhenTold(t *testing.T) {
	t.Parallel()
	p, s := serve(t, ServerOptions{})
	p.headers(1, false, get("/slow")...)
	for running := false; !running; runtime.Gosched() {
		s.mu.Lock()
		running = len(s.m.streams) == 1
		s.mu.Unlock()
	}
	s.Shutdown()
	if got := p.answer(99); got != "goaway NO_ERROR" {
		t.Errorf("told: %q", got)
	}
	p.headers(3, true, get("/late")...) // is not taken
	p.fr.WriteData(1, true, []byte("rest"))
	if got := p.answer(1); !strings.HasSuffix(got, "GET /slow x 4") {
		t.Errorf("the request under way: %q", got)
	}
	if _, err := p.fr.ReadFrame(); err != io.EOF {
		t.Errorf("told: %v", err)
	}
}
