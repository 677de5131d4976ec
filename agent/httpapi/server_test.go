package httpapi

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/session"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run the test with -update and look at the difference. Got:\n%s", path, got)
	}
}

// What scripts may rely on: status, headers and text of each kind of error.
func TestServer_errorShapes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession("")
	var b strings.Builder
	for _, c := range []struct {
		method, target, body string
		headers              []string
	}{
		{"GET", "/v1/nothing", "", nil},
		{"GET", "/", "", nil},
		{"GET", "/v1/agent/self/", "", nil},
		{"GET", "//v1/agent/self", "", nil},
		{"GET", "/v1/agent/../agent/self", "", nil},
		{"POST", "/v1/agent/self", "", nil},
		{"OPTIONS", "/v1/sessions", "", nil},
		{"GET", "/v1/agent/self", "", []string{"Host", "evil.example"}},
		{"GET", "/v1/agent/self", "", []string{"Origin", "http://evil.example"}},
		{"POST", "/v1/sessions", `{"TTL":30}`, nil},
		{"POST", "/v1/sessions", `{"TTL":"30"}`, nil},
		{"POST", "/v1/sessions", `{"Ttl":"30s"}`, nil},
		{"POST", "/v1/sessions", `{"TTL"`, nil},
		{"PUT", "/v1/sessions/deadbeef", `{"Attributes":{}}`, nil},
		{"GET", at + "/attributes/none", "", nil},
		{"GET", at + "/attributes/", "", nil},
		{"PATCH", at, `{"Attributes":{}}`, []string{"If-Match", `"1-1"`}},
		{"PATCH", at, `{"Attributes":{}}`, []string{"If-Match", `1`}},
		{"PUT", "/v1/agent/service/register", `{"Name":"shop"}`, nil},
		{"PUT", "/v1/agent/service/register", `{"Name":"shop","Port":80,"Checks":[{"HTTP":"/","Interval":2}]}`, nil},
		{"PUT", "/v1/agent/service/register", `{"Name":"shop","Port":"80"}`, nil},
		{"GET", "/v1/ring?index=1&wait=30", "", nil},
		{"GET", "/v1/ring?index=x", "", nil},
		{"GET", "/v1/ring?idx=1&pretty", "", nil},
		{"PATCH", at + "?ack=2", `{"Attributes":{"n":1}}`, nil},
		{"PUT", "/v1/ring/rebalance?force", "", nil},
	} {
		w := h.do(c.method, c.target, c.body, c.headers...)
		target := strings.ReplaceAll(c.target, at, "/v1/sessions/ID")
		fmt.Fprintf(&b, "%s %s %s %v\n%d", c.method, target, c.body, c.headers, w.Code)
		for _, name := range []string{"Allow", "Retry-After", "Location"} {
			if v := w.Header().Get(name); v != "" {
				fmt.Fprintf(&b, " %s: %s", name, v)
			}
		}
		if got := w.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%s %s: content type %q", c.method, target, got)
		}
		fmt.Fprintf(&b, "\n%s\n\n", w.Body)
	}
	golden(t, "errors.txt", b.String())
}

func TestServer_everyRouteAnswers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, r := range h.server.table() {
		if strings.HasPrefix(r.pattern, "/v1/agent/monitor") || r.pattern == "/v1/event/stream" {
			continue // without an end; in stream_test.go
		}
		w := h.do(r.method, pathOf(r.pattern), "")
		if strings.Contains(w.Body.String(), "unknown_path") || w.Code == 405 || w.Code >= 500 {
			t.Errorf("%s %s: %d %s", r.method, r.pattern, w.Code, w.Body)
		}
	}
}

func TestServer_guard(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, c := range []struct {
		host, origin, site string
		want               int
	}{
		{"127.0.0.1:8700", "", "", 200},
		{"10.1.2.3", "", "", 200},
		{"[::1]:8700", "", "", 200},
		{"[fe80::1]", "", "", 200},
		{"localhost:8700", "http://localhost:8700", "same-origin", 200},
		{"LOCALHOST", "", "", 200},
		{"web1:8700", "", "", 200},
		{"Agent.Example.com.", "", "", 200},
		{"", "", "", 200},
		{"evil.example:8700", "", "", 403},
		{"127.0.0.1.evil.example", "", "", 403},
		{"127.0.0.1:8700", "http://evil.example", "", 403},
		{"127.0.0.1:8700", "http://127.0.0.1.evil.example", "", 403},
		{"127.0.0.1:8700", "null", "", 403},
		{"127.0.0.1:8700", "", "cross-site", 403},
		{"127.0.0.1:8700", "http://6.6.6.6", "cross-site", 403},
		{"127.0.0.1:8700", "http://agent.example.com", "same-site", 200},
	} {
		var headers []string
		headers = append(headers, "Host", c.host)
		if c.origin != "" {
			headers = append(headers, "Origin", c.origin)
		}
		if c.site != "" {
			headers = append(headers, "Sec-Fetch-Site", c.site)
		}
		if w := h.do("PUT", "/v1/agent/reload", "", headers...); w.Code != c.want {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}

func TestServer_prettyOnlyMovesSpace(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession(`{"Attributes":{"v":{"a":[1.0,{}, [] ,"x y"]}}}`)
	body := h.want(h.do("GET", at+"?pretty", ""), 200).Body.String()
	if !strings.Contains(body, "\n    \"v\": {\n      \"a\": [\n        1.0,\n        {},\n        [],\n        \"x y\"\n      ]\n    }\n") {
		t.Errorf("indented:\n%s", body)
	}
	if w := h.do("GET", "/v1/nothing?pretty", ""); !strings.HasPrefix(w.Body.String(), "{\n  \"Error\": ") {
		t.Errorf("error not indented: %s", w.Body)
	}
	deep := h.newSession(`{"Attributes":{"v":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}}`)
	if n := h.do("GET", deep+"?pretty", "").Body.Len(); n > 4<<20 {
		t.Errorf("a deep value grew to %d bytes", n)
	}
}

func TestServer_headIsGetWithoutBody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession("")
	w := h.want(h.do("HEAD", at, ""), 200, "")
	if w.Header().Get("ETag") != `"7-1"` || w.Header().Get("Content-Length") == "0" {
		t.Errorf("headers %v", w.Header())
	}
}

func TestServer_panicCostsOneRequest(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.server.o.Raft = nil
	h.want(h.do("GET", "/v1/status/leader", ""), http.StatusInternalServerError)
	h.want(h.do("GET", "/v1/agent/self", ""), 200)
	if !strings.Contains(h.logText.String(), "panic in a request") {
		t.Error("the log does not tell of the panic")
	}
}

func TestServer_pageAnswersOutsideTheAPI(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.server.o.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page ", r.URL.Path) })
	h.want(h.do("GET", "/", ""), 200, "page /")
	h.want(h.do("GET", "/style.css", ""), 200, "page /style.css")
	h.want(h.do("GET", "/v1/nothing", ""), 404)
	h.want(h.do("GET", "/", "", "Host", "evil.example"), 403)
}

func TestServer_logKeepsSecrets(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := h.newSession(`{"Principal":"s3cretann","Attributes":{"a":"s3cretvalue"}}`)
	h.do("PUT", at+"/attributes/s3cretname", "s3cretbytes", "Idempotency-Key", "s3cretkey", "X-Rondel-Token", "s3crettoken")
	h.do("PATCH", at, `{"s3cretbroken"`)
	h.engine.answer = &session.Response{} // an internal error
	h.do("GET", at, "")
	text := h.logText.String()
	if strings.Contains(text, "s3cret") || strings.Contains(text, strings.TrimPrefix(at, "/v1/sessions/")) {
		t.Errorf("log:\n%s", text)
	}
	if !strings.Contains(text, "route=/v1/sessions/:id") {
		t.Errorf("no requests in the log:\n%s", text)
	}
}

// D-23 over a socket: the standard library's server must not get in the way.
func TestServer_rawBytes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	base := h.serve()
	at := h.newSession("")
	const tail = " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
	for _, c := range []struct{ request, status string }{
		{"PUT " + at + "/attributes/a%2F%2Fb" + tail + "Content-Length: 1\r\n\r\nx", "200"},
		{"GET " + at + "/attributes/a%2F%2Fb" + tail + "\r\n", "200"},
		{"GET " + at + "/attributes/a%2f%2fb" + tail + "\r\n", "200"},
		{"GET " + at + "/attributes/a//b" + tail + "\r\n", "404"},
		{"PUT " + at + "/attributes/.." + tail + "Content-Length: 1\r\n\r\nx", "200"},
		{"GET " + at + "/attributes/%2e%2E" + tail + "\r\n", "200"},
		{"GET //v1/agent/self" + tail + "\r\n", "404"},
		{"GET /v1/agent/self/" + tail + "\r\n", "404"},
		{"GET /v1//agent/self" + tail + "\r\n", "404"},
		{"GET /v1/agent/./self" + tail + "\r\n", "404"},
		{"GET http://127.0.0.1/v1/agent/self" + tail + "\r\n", "200"},
		{"GET " + at + "/attributes/a%zz" + tail + "\r\n", "400"},
		{"OPTIONS *" + tail + "\r\n", "404"},
		{"PATCH " + at + tail + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "400"},
		{"PATCH " + at + tail + "Transfer-Encoding: chunked\r\n\r\nZZ\r\n", "400"},
	} {
		answer := raw(t, base, c.request)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+c.status) {
			t.Errorf("%q\nanswer %.200q, want %s", c.request, answer, c.status)
		}
		if strings.Contains(answer, "Location:") {
			t.Errorf("%q was redirected", c.request)
		}
	}
	big := raw(t, base, "PUT "+at+"/attributes/big"+tail+"Content-Length: 8000000\r\n\r\n"+strings.Repeat("x", 8_000_000))
	if !strings.HasPrefix(big, "HTTP/1.1 413") || !strings.Contains(big, "session.max_size") {
		t.Errorf("a body that is too large: %.300q", big)
	}
}

// What the standard library refuses by itself is answered in this API's words,
// also behind a good request, and what a handler answers is never touched.
func TestServer_unreadableRequests(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	base := h.serve()
	at := h.newSession("")
	const good = "GET /v1/agent/self HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	for request, status := range map[string]string{
		"GET /v1/%zz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n": "400",
		"GET /v1/ring HTTP/1.1\r\n\r\n":                   "400",
		"GET /v1/ring HTTP/1.1\r\nHost: a b\r\n\r\n":      "400",
		"hello\r\n\r\n": "400",
		"GET /v1/ring HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n": "501",
	} {
		for _, before := range []string{"", good} {
			answer := raw(t, base, before+request)
			answer = answer[strings.LastIndex(answer, "HTTP/1.1 "):]
			head, body, _ := strings.Cut(answer, "\r\n\r\n")
			if !strings.HasPrefix(head, "HTTP/1.1 "+status) || !strings.Contains(head, "Content-Type: application/json") ||
				!strings.HasPrefix(body, `{"Error":"`) || !strings.Contains(head, fmt.Sprintf("Content-Length: %d", len(body))) {
				t.Errorf("%.60q\nanswer %.300q, want %s", request, answer, status)
			}
		}
	}
	// Over a socket a reset may come before this one is read.
	if out := string(inJSON([]byte("HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n431 Request Header Fields Too Large"))); !strings.HasPrefix(out, "HTTP/1.1 431 ") || !strings.Contains(out, `"Code":"too_large"`) {
		t.Errorf("headers that are too large: %q", out)
	}
	// A value that looks like such an answer comes out as it went in.
	value := "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	const tail = " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
	for _, pad := range []int{0, 2048, 4096, 8192} {
		value := strings.Repeat("x", pad) + value
		raw(t, base, fmt.Sprintf("PUT %s/attributes/v%sContent-Length: %d\r\n\r\n%s", at, tail, len(value), value))
		if answer := raw(t, base, "GET "+at+"/attributes/v"+tail+"\r\n"); !strings.HasSuffix(answer, "\r\n\r\n"+value) {
			t.Errorf("with %d bytes before it the value comes out as %.300q", pad, answer)
		}
	}
}
