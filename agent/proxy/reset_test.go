package proxy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framed is an instance that answers request heads frame by frame.
func framed(answer func(*http2.Framer, *http2.MetaHeadersFrame)) func(net.Conn) {
	return func(nc net.Conn) {
		io.CopyN(io.Discard, nc, int64(len(http2.ClientPreface)))
		fr := http2.NewFramer(nc, nc)
		fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		fr.WriteSettings()
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				return
			}
			if h, ok := f.(*http2.MetaHeadersFrame); ok {
				answer(fr, h)
			}
		}
	}
}

// The client of a call learns by which code the instance has reset it, and an
// instance that only kept the call's deadline is not thought ill of.
func TestReset_ofCalls(t *testing.T) {
	t.Parallel()
	codes := map[string]http2.ErrCode{
		"/cancel": http2.ErrCodeCancel, "/calm": http2.ErrCodeEnhanceYourCalm, "/internal": http2.ErrCodeInternal,
		"/refused": http2.ErrCodeRefusedStream, "/none": http2.ErrCodeNo,
	}
	seen := make(chan struct{}, 1)
	var head strings.Builder
	hpack.NewEncoder(&head).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	a := startApp(t, "a1", framed(func(fr *http2.Framer, h *http2.MetaHeadersFrame) {
		path := h.PseudoValue("path")
		if late, ok := strings.CutPrefix(path, "/late"); ok {
			path = late
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: h.StreamID, BlockFragment: []byte(head.String()), EndHeaders: true})
			fr.WriteData(h.StreamID, false, []byte("some"))
			<-seen // a reset overtakes what has yet to be passed on
		}
		fr.WriteRSTStream(h.StreamID, codes[path])
	}))
	inst := instanceOf(a, "m1")
	inst.Protocol = "h2c"
	cfg := h2cConfig()
	cfg.Routes[0].Outlier.Failures = 0
	r := startRig(t, setup{cfg: cfg, apps: []Instance{inst}})
	p := h2Raw(t, r.addr)
	id := uint32(1)
	for _, tc := range []struct {
		kind, path, want string
		faults           uint64
	}{
		{"application/grpc", "/cancel", "CANCEL", 0},
		{"application/grpc+proto", "/calm", "ENHANCE_YOUR_CALM", 1},
		{"application/grpc", "/internal", "INTERNAL_ERROR", 1},
		{"application/grpc", "/none", "INTERNAL_ERROR", 1},
		{"application/grpc", "/refused", "502", 1}, // who is told that nobody looked at it asks again
		{"application/grpc", "/late/cancel", "200 CANCEL", 0},
		{"application/grpc", "/late/calm", "200 ENHANCE_YOUR_CALM", 1},
		{"application/grpc", "/late/refused", "200 INTERNAL_ERROR", 1},
		{"text/plain", "/cancel", "502", 1}, // an error page says more to others
		{"text/plain", "/late/cancel", "200 CANCEL", 1},
	} {
		before := r.counters("a1").Failures
		p.headers(id, true, ":method", "POST", ":scheme", "http", ":path", tc.path, ":authority", "x", "content-type", tc.kind, "te", "trailers")
		if got := p.outcome(id, seen); got != tc.want {
			t.Errorf("%s %s: %s instead of %s", tc.kind, tc.path, got, tc.want)
		}
		id += 2
		eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
		if got := r.counters("a1").Failures - before; got != tc.faults {
			t.Errorf("%s %s: %d faults", tc.kind, tc.path, got)
		}
	}
	// Over HTTP/1.1 nothing can be said of a stream.
	_, br := r.send(t, "POST /cancel HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n")
	if resp, _ := read(t, br, "POST"); resp.StatusCode != 502 {
		t.Errorf("over HTTP/1.1: %s", resp.Status)
	}
}

// outcome returns a stream's status, and the code it was reset with. It tells seen
// of a head that more follows.
func (p *h2Peer) outcome(id uint32, seen chan<- struct{}) string {
	p.t.Helper()
	var parts []string
	for {
		switch f := p.frame(id).(type) {
		case *http2.MetaHeadersFrame:
			parts = append(parts, f.PseudoValue("status"))
			if f.StreamEnded() {
				return strings.Join(parts, " ")
			}
			if parts[0] == "200" {
				seen <- struct{}{}
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				return strings.Join(parts, " ")
			}
		case *http2.RSTStreamFrame:
			return strings.Join(append(parts, fmt.Sprint(f.ErrCode)), " ")
		}
	}
}
