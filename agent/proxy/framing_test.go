package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is an app that reads strictly parsed requests and keeps their lines.
type recorder struct {
	mu   sync.Mutex
	seen []string // request line, then body
	te   []string // framing fields of each
}

func (rec *recorder) handle(nc net.Conn) {
	r := bufio.NewReader(nc)
	for {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		b, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		rec.mu.Lock()
		rec.seen = append(rec.seen, q.Method+" "+q.RequestURI+" "+string(b))
		rec.te = append(rec.te, fmt.Sprint(q.Header["Content-Length"], q.TransferEncoding))
		rec.mu.Unlock()
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func (rec *recorder) all() []string {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return append([]string(nil), rec.seen...)
}

// D-01: nobody is to see another message than the proxy saw.
func TestFraming_oneReadingOfEveryRequest(t *testing.T) {
	t.Parallel()
	const canary = "GET /canary HTTP/1.1\r\nHost: x\r\n\r\n"
	post := func(fields, body string) string {
		return "POST /p HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" + body
	}
	chunked := "Transfer-Encoding: chunked\r\n"
	for name, tc := range map[string]struct {
		text   string
		status int
		body   string
	}{
		"sized":                {post("Content-Length: 5\r\n", "hello"), 200, "hello"},
		"same length twice":    {post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 200, "hello"},
		"folded lengths":       {post("Content-Length: 5, 5\r\n", "hello"), 400, ""},
		"two lengths":          {post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), 400, ""},
		"two lengths, list":    {post("Content-Length: 5,6\r\n", "hello"), 400, ""},
		"length and chunked":   {post("Content-Length: 5\r\n"+chunked, "0\r\n\r\n"), 400, ""},
		"chunked and length":   {post(chunked+"Content-Length: 5\r\n", "0\r\n\r\n"), 400, ""},
		"bad length, chunked":  {post("Content-Length: x\r\n"+chunked, "0\r\n\r\n"), 400, ""},
		"chunked":              {post(chunked, "5\r\nhello\r\n0\r\n\r\n"), 200, "hello"},
		"chunked, tab before":  {post("Transfer-Encoding:\tchunked\r\n", "5\r\nhello\r\n0\r\n\r\n"), 200, "hello"},
		"chunked, tab after":   {post("Transfer-Encoding: chunked\t\r\n", "5\r\nhello\r\n0\r\n\r\n"), 200, "hello"},
		"chunked, other case":  {post("transfer-encoding: Chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"), 200, "hello"},
		"xchunked":             {post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 400, ""},
		"chunked, identity":    {post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), 400, ""},
		"gzip, chunked":        {post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501, ""},
		"two codings":          {post(chunked+chunked, "0\r\n\r\n"), 501, ""},
		"empty coding":         {post("Transfer-Encoding:\r\n", "0\r\n\r\n"), 400, ""},
		"control in coding":    {post("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"), 400, ""},
		"space before colon":   {post("Content-Length : 5\r\n", "hello"), 400, ""},
		"plus":                 {post("Content-Length: +5\r\n", "hello"), 400, ""},
		"minus":                {post("Content-Length: -5\r\n", "hello"), 400, ""},
		"hexadecimal":          {post("Content-Length: 0x5\r\n", "hello"), 400, ""},
		"underscore":           {post("Content-Length: 5_0\r\n", "hello"), 400, ""},
		"exponent":             {post("Content-Length: 1e1\r\n", "hello"), 400, ""},
		"huge":                 {post("Content-Length: 99999999999999999999999\r\n", "hello"), 400, ""},
		"empty length":         {post("Content-Length:\r\n", "hello"), 400, ""},
		"folded line":          {post("X: a\r\n b\r\n", ""), 400, ""},
		"folded length":        {post("Content-Length:\r\n 5\r\n", "hello"), 400, ""},
		"bare line feeds":      {"POST /p HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello", 400, ""},
		"one bare line feed":   {post("X: a\nContent-Length: 5\r\n", "hello"), 400, ""},
		"bare CR":              {post("X: a\rContent-Length: 5\r\n", "hello"), 400, ""},
		"NUL":                  {post("X: a\x00b\r\n", ""), 400, ""},
		"no name":              {post(": a\r\n", ""), 400, ""},
		"no colon":             {post("abc\r\n", ""), 400, ""},
		"leading space":        {"POST /p HTTP/1.1\r\n Host: x\r\n\r\n", 400, ""},
		"chunk extension":      {post(chunked, "5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n"), 200, "hello"},
		"CR in extension":      {post(chunked, "5;a=\rb\r\nhello\r\n0\r\n\r\n"), 400, ""},
		"LF in extension":      {post(chunked, "5;a=\nb\r\nhello\r\n0\r\n\r\n"), 400, ""},
		"bare LF after size":   {post(chunked, "5\nhello\r\n0\r\n\r\n"), 400, ""},
		"no CRLF after data":   {post(chunked, "5\r\nhelloX0\r\n\r\n"), 400, ""},
		"size with sign":       {post(chunked, "+5\r\nhello\r\n0\r\n\r\n"), 400, ""},
		"size with prefix":     {post(chunked, "0x5\r\nhello\r\n0\r\n\r\n"), 400, ""},
		"size too long":        {post(chunked, "00000000000000005\r\nhello\r\n0\r\n\r\n"), 400, ""},
		"no size":              {post(chunked, "\r\nhello\r\n0\r\n\r\n"), 400, ""},
		"space before size":    {post(chunked, " 5\r\nhello\r\n0\r\n\r\n"), 400, ""},
		"space after size":     {post(chunked, "5 \r\nhello\r\n0\r\n\r\n"), 400, ""},
		"trailer":              {post(chunked, "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"), 200, "hello"},
		"trailer, bare LF":     {post(chunked, "0\r\nX-Sum: 1\n\r\n"), 400, ""},
		"trailer, no name":     {post(chunked, "0\r\nGET /canary HTTP/1.1\r\n\r\n"), 400, ""},
		"chunked in HTTP/1.0":  {"POST /p HTTP/1.0\r\nHost: x\r\n" + chunked + "\r\n0\r\n\r\n", 400, ""},
		"HTTP/2.0":             {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, ""},
		"version":              {"GET /p HTTP/3.0\r\nHost: x\r\n\r\n", 505, ""},
		"version, lower case":  {"GET /p http/1.1\r\nHost: x\r\n\r\n", 400, ""},
		"two spaces":           {"GET  /p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
		"space in target":      {"GET /p q HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
		"tab in target":        {"GET /p\tq HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
		"fragment":             {"GET /p#q HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
		"authority":            {"GET example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
		"CONNECT":              {"CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", 501, ""},
		"no host":              {"GET /p HTTP/1.1\r\n\r\n", 400, ""},
		"two hosts":            {"GET /p HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400, ""},
		"user in host":         {"GET /p HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, ""},
		"port out of range":    {"GET /p HTTP/1.1\r\nHost: [::1]:99999\r\n\r\n", 400, ""},
		"no end of literal":    {"GET /p HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, ""},
		"smuggling by Connect": {post("Connection: Content-Length\r\nContent-Length: 5\r\n", "hello"), 200, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := &recorder{}
			a := startApp(t, "a1", rec.handle)
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.send(t, tc.text+canary)
			resp, _ := read(t, br, "POST")
			if resp.StatusCode != tc.status {
				t.Fatalf("status %d, want %d", resp.StatusCode, tc.status)
			}
			if tc.status != 200 {
				if rest, _ := io.ReadAll(br); len(rest) > 0 {
					t.Errorf("more came: %q", rest)
				}
				for _, s := range rec.all() {
					t.Errorf("the app saw %q", s)
				}
				return
			}
			if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
				t.Errorf("canary: %d", resp.StatusCode)
			}
			nc.Close()
			got := rec.all()
			if len(got) != 2 || got[0] != "POST /p "+tc.body || got[1] != "GET /canary " {
				t.Errorf("the app saw %q", got)
			}
		})
	}
}

// D-04: responses without a body end at once, whatever they say.
func TestFraming_responsesWithoutBody(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ method, reply, has, hasNot string }{
		"HEAD, length":   {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", "Content-Length: 1234", "Transfer-Encoding"},
		"HEAD, chunked":  {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked", "Content-Length"},
		"HEAD, neither":  {"HEAD", "HTTP/1.1 200 OK\r\n\r\n", "200", "Content-Length"},
		"304, length":    {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", "Content-Length: 99", "Transfer-Encoding"},
		"304, chunked":   {"GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "304", "Transfer-Encoding"},
		"204":            {"GET", "HTTP/1.1 204 No Content\r\n\r\n", "204", "Content-Length"},
		"204, length":    {"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n", "204", "Content-Length"},
		"204, with body": {"GET", "HTTP/1.1 204 No Content\r\n\r\nXXXX", "204", "XXXX"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", func(nc net.Conn) {
				br := bufio.NewReader(nc)
				for {
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					if q.URL.Path == "/next" {
						io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext")
					} else {
						io.WriteString(nc, tc.reply)
					}
				}
			})
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			began := time.Now()
			nc, br := r.send(t, tc.method+" / HTTP/1.1\r\nHost: x\r\n\r\n")
			var head strings.Builder
			for {
				line, err := br.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				head.WriteString(line)
				if line == "\r\n" {
					break
				}
			}
			if !strings.Contains(head.String(), tc.has) || strings.Contains(head.String(), tc.hasNot) {
				t.Errorf("head %q", head.String())
			}
			io.WriteString(nc, "GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
			if _, body := read(t, br, "GET"); body != "next" {
				t.Errorf("next: %q", body)
			}
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
}

// Responses that are framed otherwise than the client can take.
func TestFraming_responses(t *testing.T) {
	t.Parallel()
	const chunkedReply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Sum: 1\r\nRondel-Session: 7\r\n\r\n"
	for name, tc := range map[string]struct {
		request, reply, body string
		status               int
		closes, broken       bool
	}{
		"chunked":           {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", chunkedReply, "abcde", 200, false, false},
		"chunked, to 1.0":   {"GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", chunkedReply, "abcde", 200, true, false},
		"until close":       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nabcde", "abcde", 200, false, false},
		"until close, 1.0":  {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nabcde", "abcde", 200, true, false},
		"length, 1.0":       {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde", "abcde", 200, false, false},
		"cut short":         {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcde", "abcde", 200, true, true},
		"bad chunk":         {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nzz\r\n", "abcde", 200, true, true},
		"two lengths":       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", "", 502, false, false},
		"identity":          {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nabcde", "", 502, false, false},
		"not HTTP":          {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n\r\n", "", 502, false, false},
		"folded":            {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "", 502, false, false},
		"nothing":           {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "", "", 502, false, false},
		"half a head":       {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nConte", "", 502, false, false},
		"length and chunks": {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n", "abcde", 200, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", func(nc net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
					io.WriteString(nc, tc.reply)
				}
			})
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			_, br := r.send(t, tc.request)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if (err != nil) != tc.broken {
				t.Errorf("broken: %v", err)
			}
			if resp.StatusCode != tc.status || tc.status == 200 && string(b) != tc.body {
				t.Errorf("%d %q", resp.StatusCode, b)
			}
			if !tc.broken && resp.Close != tc.closes {
				t.Errorf("close is %v", resp.Close)
			}
			if name == "chunked" && (resp.Trailer.Get("X-Sum") != "1" || resp.Trailer.Get("Rondel-Session") != "") {
				t.Errorf("trailers %v", resp.Trailer)
			}
		})
	}
}

// D-11: limits and their statuses.
func TestFraming_limits(t *testing.T) {
	t.Parallel()
	big := func(n int) string { return strings.Repeat("x", n<<10) }
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			n := 1
			fmt.Sscanf(q.URL.Path, "/%d", &n)
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nX: %s\r\nContent-Length: 0\r\n\r\n", big(n))
		}
	})
	r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
	for name, tc := range map[string]struct {
		text   string
		status int
	}{
		"16 KiB cookie":     {"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + big(16) + "\r\n\r\n", 200},
		"63 KiB cookie":     {"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + big(63) + "\r\n\r\n", 200},
		"65 KiB cookie":     {"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + big(65) + "\r\n\r\n", 431},
		"1100 KiB cookie":   {"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + big(1100) + "\r\n\r\n", 431},
		"long target":       {"GET /" + big(65) + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
		"many fields":       {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 1000) + "\r\n", 200},
		"too many fields":   {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 12000) + "\r\n", 431},
		"200 KiB response":  {"GET /200 HTTP/1.1\r\nHost: x\r\n\r\n", 200},
		"257 KiB response":  {"GET /257 HTTP/1.1\r\nHost: x\r\n\r\n", 502},
		"1000 KiB response": {"GET /1000 HTTP/1.1\r\nHost: x\r\n\r\n", 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(10 * time.Second))
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				io.WriteString(nc, tc.text) // it may be refused half-way
			}()
			resp, _ := read(t, bufio.NewReader(nc), "GET")
			if resp.StatusCode != tc.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tc.status)
			}
			nc.Close()
			<-sent
		})
	}
}

func TestFraming_slowHead(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Timeouts.Header = 100 * time.Millisecond
	a := startApp(t, "a1", echo("a1"))
	r := startRig(t, setup{cfg: Config{Timeouts: cfg.Timeouts}, apps: []Instance{instanceOf(a, "m1")}})
	_, br := r.send(t, "GET / HT")
	if resp, _ := read(t, br, "GET"); resp.StatusCode != 408 {
		t.Errorf("status %d", resp.StatusCode)
	}
	_, br = r.send(t, "")
	if b, _ := io.ReadAll(br); len(b) > 0 {
		t.Errorf("a silent client got %q", b)
	}
}
