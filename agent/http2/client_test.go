package http2

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// instance is the far end of a Client's connections: it does with each stream
// what the test says.
func instance(t *testing.T, most uint32, do func(fr *http2.Framer, f *http2.MetaHeadersFrame, n int)) *Client {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	n := 0
	all.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			n++
			conn := n
			all.Go(func() {
				defer nc.Close()
				br := bufio.NewReader(nc) // else it would be at small frames for long
				fr := http2.NewFramer(nc, br)
				fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
				preface := make([]byte, len(http2.ClientPreface))
				if _, err := io.ReadFull(br, preface); err != nil {
					return
				}
				fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: most})
				for {
					f, err := fr.ReadFrame()
					if err != nil {
						return
					}
					if h, ok := f.(*http2.MetaHeadersFrame); ok {
						do(fr, h, conn)
					}
				}
			})
		}
	})
	c := NewClient(ClientOptions{
		Dial:   func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) },
		Limits: func() Limits { return Limits{64 << 10, time.Minute, time.Minute, time.Minute} },
		Go:     all.Go,
	})
	t.Cleanup(func() { c.Close(); ln.Close(); all.Wait() })
	return c
}

func dial(t *testing.T, c *Client) net.Conn {
	t.Helper()
	nc, err := c.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	return nc
}

func respond(fr *http2.Framer, id uint32, end bool, fields ...string) {
	p := &peer{}
	p.he = hpack.NewEncoder(&p.hb)
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block(fields...), EndStream: end, EndHeaders: true})
}

func TestClient_unprocessedRequests(t *testing.T) {
	t.Parallel()
	c := instance(t, 100, func(fr *http2.Framer, f *http2.MetaHeadersFrame, conn int) {
		switch path := f.PseudoValue("path"); {
		case path == "/refuse":
			fr.WriteRSTStream(f.StreamID, http2.ErrCodeRefusedStream)
		case path == "/reset":
			fr.WriteRSTStream(f.StreamID, http2.ErrCodeInternal)
		case path == "/away" && conn == 1:
			fr.WriteGoAway(f.StreamID-2, http2.ErrCodeNo, nil)
		default:
			respond(fr, f.StreamID, true, ":status", "204", "conn", fmt.Sprint(conn))
		}
	})
	for path, want := range map[string]error{"/refuse": ErrUnprocessed, "/reset": ErrReset} {
		nc := dial(t, c)
		fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", path)
		if _, err := nc.Read(make([]byte, 100)); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	// The one that was told to go is not used any more; another one is.
	nc := dial(t, c)
	io.WriteString(nc, "GET /away HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := nc.Read(make([]byte, 100)); !errors.Is(err, ErrUnprocessed) {
		t.Errorf("goaway: %v", err)
	}
	nc = dial(t, c)
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil || resp.StatusCode != 204 || resp.Header.Get("Conn") != "2" {
		t.Errorf("%v %v", resp, err)
	}
}

// An answer that is whole is read, though the instance wants no more of the upload.
func TestClient_answersBeforeTheUploadEnds(t *testing.T) {
	t.Parallel()
	c := instance(t, 100, func(fr *http2.Framer, f *http2.MetaHeadersFrame, _ int) {
		respond(fr, f.StreamID, false, ":status", "413", "content-length", "2")
		switch f.PseudoValue("path") {
		case "/whole":
			fr.WriteData(f.StreamID, true, []byte("no"))
			fr.WriteRSTStream(f.StreamID, http2.ErrCodeNo)
		case "/cut":
			fr.WriteData(f.StreamID, false, []byte("n"))
			fr.WriteRSTStream(f.StreamID, http2.ErrCodeNo)
		}
	})
	for path, whole := range map[string]bool{"/whole": true, "/cut": false} {
		nc := dial(t, c)
		fmt.Fprintf(nc, "POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", path)
		for { // until the reset has come
			if _, err := io.WriteString(nc, "1\r\nx\r\n"); err != nil {
				if !errors.Is(err, ErrReset) {
					t.Fatalf("%s: %v", path, err)
				}
				break
			}
		}
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		var body []byte
		if err == nil {
			body, err = io.ReadAll(resp.Body)
		}
		if got := err == nil && resp.StatusCode == 413 && string(body) == "no"; got != whole {
			t.Errorf("%s: %v %q %v", path, resp, body, err)
		}
	}
}

// As many requests at a time as the instance takes go over one connection.
func TestClient_anotherConnectionWhenFull(t *testing.T) {
	t.Parallel()
	c := instance(t, 2, func(fr *http2.Framer, f *http2.MetaHeadersFrame, conn int) {
		respond(fr, f.StreamID, false, ":status", "200", "conn", fmt.Sprint(conn))
	})
	for n := range 6 {
		nc := dial(t, c)
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil || resp.Header.Get("Conn") != fmt.Sprint(n/2+1) {
			t.Errorf("%d: %v %v", n, resp, err)
		}
	}
}

func TestClient_malformedResponses(t *testing.T) {
	t.Parallel()
	bad := map[string][]string{
		"/none": {"x", "y"}, "/status": {":status", "20"}, "/word": {":status", "abc"}, "/two": {":status", "200", ":path", "/"}, "/switch": {":status", "101"},
		"/hop": {":status", "200", "connection", "close"}, "/coding": {":status", "200", "transfer-encoding", "chunked"}, "/length": {":status", "200", "content-length", "x"},
		"/lengths": {":status", "200", "content-length", "1", "content-length", "2"}, "/short": {":status", "200", "content-length", "1"}, "/split": {":status", "200", "x", "a\r\nb"},
	}
	c := instance(t, 100, func(fr *http2.Framer, f *http2.MetaHeadersFrame, _ int) {
		respond(fr, f.StreamID, true, bad[f.PseudoValue("path")]...)
	})
	for path := range bad {
		nc := dial(t, c)
		fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		if n, err := nc.Read(make([]byte, 100)); err == nil || !errors.Is(err, errResponse) {
			t.Errorf("%s: %d %v", path, n, err)
		}
	}
}

// A connection that speaks something else is none.
func TestClient_notHTTP2(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
	c := NewClient(ClientOptions{
		Dial:   func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) },
		Limits: func() Limits { return Limits{64 << 10, time.Second, time.Second, 5 * time.Second} }, Go: all.Go,
	})
	if nc, err := c.Dial(); err == nil {
		nc.Close()
		t.Error("it was taken for HTTP/2")
	}
	ln.Close()
	all.Wait()
}
