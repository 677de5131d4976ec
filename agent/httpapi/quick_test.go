package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// mirror answers with all that it was asked.
func mirror(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %q %q %q %q %q %d %s\n", r.Method, r.RequestURI, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.Host, r.ContentLength, r.Proto)
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %q\n", name, r.Header[name])
	}
	if !strings.Contains(r.URL.Path, "deaf") {
		_, err := io.Copy(&b, r.Body)
		fmt.Fprintf(&b, "\n%v\n", err)
	}
	switch {
	case strings.Contains(r.URL.Path, "large"):
		b.Write(bytes.Repeat([]byte("large"), 40_000))
	case strings.Contains(r.URL.Path, "same"):
		w.Header().Set("ETag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
		return
	case strings.Contains(r.URL.Path, "abort"):
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "text/x-mirror")
	writeBody(w, r, http.StatusOK, b.Bytes())
}

// carriers are a door and a bare net/http server before the same handler.
type carriers struct{ door, plain net.Listener }

func newCarriers(t testing.TB) carriers {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	c := carriers{listen(), listen()}
	ctx, cancel := context.WithCancel(context.Background())
	d := newDoor(ctx, hclog.NewNullLogger(), http.HandlerFunc(mirror), func() int { return 1 << 20 })
	plain := &http.Server{
		Handler: answering(http.HandlerFunc(mirror)), DisableGeneralOptionsHandler: true, MaxHeaderBytes: maxHead,
		ConnState: onState, ConnContext: withConn, ErrorLog: d.http.ErrorLog,
	}
	ended := make(chan error, 3)
	go func() { ended <- d.serveRest() }()
	go func() { ended <- d.accept(c.door) }()
	go func() { plain.Serve(inWords{c.plain}); ended <- nil }()
	t.Cleanup(func() {
		bounded, done := context.WithTimeout(ctx, time.Second)
		defer done()
		if err := d.stop(bounded, []net.Listener{c.door}, cancel); err != nil {
			t.Error(err)
		}
		plain.Close()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

// inWords is a listener whose connections put net/http's own refusals in this
// API's words, as the door's do.
type inWords struct{ net.Listener }

func (l inWords) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// exchange sends bytes, ends its half of the connection, and returns the
// answers without what may differ.
func exchange(t testing.TB, l net.Listener, text []byte) (out []string) {
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		c.Write(text) // the other side may close before it has read all
		c.(*net.TCPConn).CloseWrite()
	}()
	in := bufio.NewReader(c)
	for {
		method := "GET"
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return out
		}
		if resp.Header.Get("X-Method") == "HEAD" {
			method = "HEAD"
		}
		resp.Header.Del("Date")
		resp.Header.Del("Connection")
		resp.Close = false
		b, err := httputil.DumpResponse(resp, method != "HEAD")
		if err != nil {
			return append(out, err.Error())
		}
		out = append(out, string(b))
	}
}

// What a client sees must not depend on who carries its requests.
func FuzzQuick(f *testing.F) {
	const host = "Host: a\r\n"
	for _, s := range []string{
		"GET /v1/sessions/x HTTP/1.1\r\n" + host + "\r\n",
		"GET /v1/sessions/x HTTP/1.1\r\n" + host + "\r\nGET /v1/sessions/y?a=b&c HTTP/1.1\r\nhost: b:1\r\nif-match: \"1\"\r\n\r\n",
		"PUT /v1/sessions/x HTTP/1.1\r\n" + host + "Content-Length: 5\r\nX-a: 1\r\nX-A: 2\r\n\r\nhelloGET /v1/sessions/z? HTTP/1.1\r\n" + host + "\r\n",
		"PUT /v1/sessions/x HTTP/1.1\r\n" + host + "Content-Length: 50\r\n\r\nhello",
		"PUT /v1/sessions/deaf HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhelloGET /v1/sessions/large HTTP/1.1\r\n" + host + "\r\n",
		"PUT /v1/sessions/x HTTP/1.1\r\n" + host + "Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello",
		"PUT /v1/sessions/x HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\nGET /v1/sessions/x HTTP/1.1\r\n" + host + "\r\n",
		"PUT /v1/sessions/x HTTP/1.1\r\n" + host + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
		"POST /v1/sessions HTTP/1.1\r\n" + host + "Content-Length: 2\r\n\r\n{}GET /v1/sessions HTTP/1.1\r\n" + host + "\r\nGET /v1/sessions/same HTTP/1.1\r\n" + host + "\r\n",
		"GET /v1/sessions/%41/%zz HTTP/1.1\r\n" + host + "\r\n",
		"GET /v1/sessions/%41%2f HTTP/1.1\r\n" + host + "Pragma: no-cache\r\n\r\n",
		"GET /v1/sessions/a:b~$ HTTP/1.0\r\n" + host + "\r\n",
		"GET http://b/v1/sessions/x HTTP/1.1\r\n" + host + "\r\n",
		"GET /v1/sessions/x HTTP/1.1\r\n" + host + "Connection: close\r\n\r\nGET /v1/sessions/x HTTP/1.1\r\n" + host + "\r\n",
		"GET /v1/sessions/x HTTP/1.1\r\n" + host + "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
		"GET /v1/sessions/x HTTP/1.1\r\n\r\n",
		"GET /v1/sessions/x HTTP/1.1\n" + host + "\n",
		"\r\nGET /v1/sessions/x HTTP/1.1\r\nHost: \r\n\r\n",
		"GET /v1/sessions/x HTTP/1.1\r\n" + host + "A : b\r\n\r\n",
		"DELETE /v1/sessions/abort HTTP/1.1\r\n" + host + "\r\nGET /v1/sessions/x HTTP/1.1\r\n" + host + "\r\n",
		"GET /v1/sessions/x HTTP/1.1\r\n" + host + "A: " + strings.Repeat("a", 5000) + "\r\n\r\n",
		"GET /v1/sessions/x HTTP/1.1\r\n" + host + "A: " + strings.Repeat("a", 70_000) + "\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	c := newCarriers(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte("HEAD ")) {
			return // its answers cannot be told from a body's beginning here
		}
		got, want := exchange(t, c.door, text), exchange(t, c.plain, text)
		if !slices.Equal(got, want) {
			t.Fatalf("%.500q: got\n%.900q\nwant\n%.900q", text, got, want)
		}
	})
}

func TestQuick_head(t *testing.T) {
	t.Parallel()
	c := newCarriers(t)
	for _, l := range []net.Listener{c.door, c.plain} {
		got := raw(t, "http://"+l.Addr().String(), "HEAD /v1/sessions/x HTTP/1.1\r\nHost: a\r\n\r\nGET /v1/sessions/same HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		first, rest, _ := strings.Cut(got, "\r\n\r\n")
		if !strings.HasPrefix(first, "HTTP/1.1 200 OK\r\n") || !strings.Contains(first, "Content-Length: ") || !strings.HasPrefix(rest, "HTTP/1.1 304 ") {
			t.Errorf("got %q", got)
		}
	}
}

// A connection that sends other requests is still answered, and so are plain
// ones behind them.
func TestQuick_mixed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	base := h.serve()
	at := h.newSession(`{"Attributes":{"n":1}}`)
	got := raw(t, base, strings.Join([]string{
		"GET " + at + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /v1/status/leader HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET " + at + "/attributes/n HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
	}, ""))
	if n := strings.Count(got, "HTTP/1.1 200 OK"); n != 3 {
		t.Errorf("%d answers of 3:\n%s", n, got)
	}
}

// A request that has begun is answered before the door closes, and idle
// connections do not hold it open.
func TestQuick_stop(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, release := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d := newDoor(ctx, hclog.NewNullLogger(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-release
		w.Write([]byte("done"))
	}), func() int { return 1 << 20 })
	ended := make(chan error, 2)
	go func() { ended <- d.serveRest() }()
	go func() { ended <- d.accept(l) }()
	idle, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	answer := make(chan string, 1)
	go func() {
		answer <- raw(t, "http://"+l.Addr().String(), "GET /v1/sessions/x HTTP/1.1\r\nHost: a\r\n\r\n")
	}()
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- d.stop(ctx, []net.Listener{l}, cancel) }()
	idle.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the idle connection: %v", err)
	}
	close(release)
	if got := <-answer; !strings.HasSuffix(got, "\r\n\r\ndone") {
		t.Errorf("got %q", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
