package http2

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// app answers HTTP/1.1 as it comes on a connection, in the way that the path
// asks for.
func app(nc net.Conn) {
	defer nc.Close()
	br := bufio.NewReader(nc)
	for {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if q.URL.Path == "/early" {
			io.WriteString(nc, "HTTP/1.1 413 Large\r\nContent-Length: 2\r\n\r\nno")
			return
		}
		b, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		var head strings.Builder
		for _, name := range []string{"Cookie", "Te", "Content-Length", "Transfer-Encoding"} {
			if v := q.Header.Get(name); v != "" {
				fmt.Fprintf(&head, " %s=%s", name, v)
			}
		}
		text := fmt.Sprintf("%s %s %s %d%s", q.Method, q.RequestURI, q.Host, len(b), head.String())
		switch q.URL.Path {
		case "/hang":
			io.Copy(io.Discard, br)
			return
		case "/chunks":
			fmt.Fprintf(nc, "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n")
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-Up: A\r\n\r\n")
			for _, c := range text {
				fmt.Fprintf(nc, "1\r\n%c\r\n", c)
			}
			fmt.Fprintf(nc, "0\r\nX-Sum: 7\r\n\r\n")
		default:
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		}
	}
}

// peer is the client's end of a connection, frame by frame.
type peer struct {
	t    testing.TB
	nc   net.Conn
	fr   *http2.Framer
	hb   bytes.Buffer
	mute bool // settings are not acknowledged
	he   *hpack.Encoder
}

// serve runs a Server on a connection of its own and returns its client's end.
func serve(t testing.TB, opt ServerOptions) (*peer, *Server) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, in, nc, opt)
}

// serveOn does it on the two ends of a connection.
func serveOn(t testing.TB, in, nc net.Conn, opt ServerOptions) (*peer, *Server) {
	t.Helper()
	var all sync.WaitGroup
	o := ServerOptions{Head: 16 << 10, Streams: 10, Header: time.Minute, Idle: time.Minute, Write: time.Minute}
	if opt.Streams > 0 {
		o.Streams = opt.Streams
	}
	if opt.Idle > 0 {
		o.Idle = opt.Idle
	}
	o.Serve = func(nc net.Conn) { all.Go(func() { app(nc) }) }
	s := NewServer(in, o)
	s.m.limit.linger = time.Minute // whoever is held up still hears why a connection ends
	all.Go(func() { s.Run() })     // how it ends, the peer sees
	t.Cleanup(func() { nc.Close(); all.Wait() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	// Buffered: who reads a flood of answers frame by frame is at it for minutes on a
	// machine that holds up each read.
	p := &peer{t: t, nc: nc, fr: http2.NewFramer(nc, bufio.NewReader(nc))}
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.fr.AllowIllegalWrites = true
	p.he = hpack.NewEncoder(&p.hb)
	io.WriteString(nc, http2.ClientPreface)
	p.fr.WriteSettings()
	return p, s
}

// block encodes fields, given as name and value in turn.
func (p *peer) block(fields ...string) []byte {
	p.hb.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.he.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(p.hb.Bytes())
}

func (p *peer) headers(id uint32, end bool, fields ...string) {
	p.t.Helper()
	block := p.block(fields...)
	n := min(len(block), maxFrame)
	if err := p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:n], EndStream: end, EndHeaders: n == len(block)}); err != nil {
		p.t.Fatal(err)
	}
	for block = block[n:]; len(block) > 0; block = block[n:] {
		n = min(len(block), maxFrame)
		p.fr.WriteContinuation(id, n == len(block), block[:n])
	}
}

func get(path string, more ...string) []string {
	return append([]string{":method", "GET", ":scheme", "http", ":authority", "x", ":path", path}, more...)
}

// answer reads until a stream has ended, and tells of it: the status, the body
// and the trailers, or how it was reset.
func (p *peer) answer(id uint32) (out string) {
	p.t.Helper()
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return out + err.Error()
		}
		ended := false
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() && !p.mute {
				p.fr.WriteSettingsAck()
			}
		case *http2.GoAwayFrame:
			return out + "goaway " + f.ErrCode.String()
		}
		if f.Header().StreamID != id {
			continue
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				out += h.Name + "=" + h.Value + " "
			}
			ended = f.StreamEnded()
		case *http2.DataFrame:
			out += string(f.Data())
			ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			return out + "reset " + f.ErrCode.String()
		}
		if ended {
			return out
		}
	}
}
