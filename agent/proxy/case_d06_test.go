package proxy

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A refuses connections: B gets the exact bytes of any method, in the framing
// that they came in, and no more of a long body is in memory than is under way.
// It counts what is allocated, so nothing may run beside it.
func TestCase_D06_refusedConnectionsCostNothing(t *testing.T) {
	const long = 64 << 20
	got := make(chan message, 1)
	good := startApp(t, "a1", digest(got, ok))
	for _, size := range []int64{10, 1 << 20, long} {
		for _, chunked := range []bool{false, true} {
			r := startRig(t, setup{apps: []Instance{deaf(t, "a0"), instanceOf(good, "m1")}})
			head, framing := fmt.Sprintf("Content-Length: %d\r\n", size), fmt.Sprintf("[%d] []", size)
			var body io.Reader = &pattern{n: size}
			if chunked {
				head, framing, body = "Transfer-Encoding: chunked\r\n", "[] [chunked]", &chunks{from: body, size: 8000}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, br := r.put(t, strings.NewReader("POST /p HTTP/1.1\r\nHost: x\r\n"+head+"\r\n"), body)
			resp, _ := read(t, br, "POST")
			runtime.ReadMemStats(&after)
			h := sha256.New()
			io.Copy(h, &pattern{n: size})
			m := <-got
			if resp.StatusCode != 200 || m.line != "POST /p" || m.framing != framing || m.n != size || string(h.Sum(nil)) != string(m.sum[:]) {
				t.Errorf("%d bytes, chunked %v: %d, the app saw %+v", size, chunked, resp.StatusCode, m)
			}
			if len(resp.Header.Values("Set-Cookie")) != 1 {
				t.Errorf("cookies %q", resp.Header.Values("Set-Cookie"))
			}
			most := uint64(8 << 20)
			if chunked {
				most += long + long/4 // what the client makes its chunks of
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > most {
				t.Errorf("%d bytes, chunked %v: %d MiB were allocated", size, chunked, grown>>20)
			}
			if inUse := after.HeapAlloc; inUse > 64<<20 {
				t.Errorf("%d bytes, chunked %v: %d MiB in use", size, chunked, inUse>>20)
			}
		}
	}
}

// A accepts, reads all, and closes.
func TestCase_D06_brokenOff(t *testing.T) {
	t.Parallel()
	const key = "Idempotency-Key: 7\r\n"
	keyed := func(rt *Route) { rt.Retry.IdempotencyKey = true }
	keyedAlone := func(rt *Route) { rt.Retry.IdempotencyKey, rt.Retry.Idempotent = true, false }
	off := func(rt *Route) { rt.Retry.Idempotent = false }
	small, large := "0123456789", strings.Repeat("x", 64<<10+1)
	for name, tc := range map[string]struct {
		method, fields, body string
		change               func(*Route)
		status               int
	}{
		"GET":                              {"GET", "", "", nil, 200},
		"GET with a body":                  {"GET", "", "x", nil, 200},
		"HEAD":                             {"HEAD", "", "", nil, 200},
		"PUT":                              {"PUT", "", small, nil, 200},
		"DELETE":                           {"DELETE", "", "", nil, 200},
		"OPTIONS":                          {"OPTIONS", "", "", nil, 200},
		"PUT over the limit":               {"PUT", "", large, nil, 502},
		"PUT, limit raised":                {"PUT", "", large, func(rt *Route) { rt.Retry.Body = 1 << 20 }, 200},
		"POST":                             {"POST", "", small, nil, 502},
		"POST, empty":                      {"POST", "", "", nil, 502},
		"PATCH":                            {"PATCH", "", small, nil, 502},
		"POST, keyed, undeclared":          {"POST", key, small, nil, 502},
		"POST, keyed, declared":            {"POST", key, small, keyed, 200},
		"POST, declared, no key":           {"POST", "", small, keyed, 502},
		"POST, declared, an empty key":     {"POST", "Idempotency-Key:\r\n", small, keyed, 502},
		"POST, keyed, declared alone":      {"POST", key, small, keyedAlone, 200},
		"GET where only keys count":        {"GET", "", "", keyedAlone, 502},
		"GET with retries off":             {"GET", "", "", off, 502},
		"GET with one attempt":             {"GET", "", "", func(rt *Route) { rt.Retry.Attempts = 1 }, 502},
		"lower-case method is another one": {"get", "", "", nil, 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := make(chan message, 4), make(chan message, 4)
			list := []Instance{instanceOf(startApp(t, "a0", digest(first, "")), "m0"), instanceOf(startApp(t, "a1", digest(second, ok)), "m1")}
			change := tc.change
			if change == nil {
				change = func(*Route) {}
			}
			r := startRig(t, setup{cfg: routed(change), apps: list})
			length := ""
			if tc.body != "" || tc.method == "POST" {
				length = fmt.Sprintf("Content-Length: %d\r\n", len(tc.body))
			}
			nc, br := r.put(t, strings.NewReader(tc.method+" /p HTTP/1.1\r\nHost: x\r\n"+tc.fields+length+"\r\n"+tc.body))
			resp, _ := read(t, br, tc.method)
			if resp.StatusCode != tc.status {
				t.Fatalf("status %d, want %d", resp.StatusCode, tc.status)
			}
			a := <-first
			if !a.of(tc.body) {
				t.Errorf("the first app saw %+v", a)
			}
			none(t, first)
			if tc.status != 200 {
				none(t, second)
				if len(resp.Header.Values("Set-Cookie")) != 0 {
					t.Error("a cookie for an instance that did not answer")
				}
			} else {
				b := <-second
				if a != b { // request id and session included
					t.Errorf("first %+v, then %+v", a, b)
				}
				if len(a.id) != 32 || resp.Header.Get("Rondel-Request-Id") != a.id || a.session == "" {
					t.Errorf("%+v answered with id %q", a, resp.Header.Get("Rondel-Request-Id"))
				}
				cookie, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
				if name, _, _ := r.get(t, cookie); name != "ok" {
					t.Errorf("bound to %s", name)
				}
				if len(second) != 1 {
					t.Error("the cookie does not name the instance that answered")
				}
			}
			io.WriteString(nc, "GET /canary HTTP/1.1\r\nHost: x\r\n\r\n")
		})
	}
}

// A says 503, and the route wants none of that.
func TestCase_D06_unwantedAnswers(t *testing.T) {
	t.Parallel()
	small, large := "0123456789", strings.Repeat("x", 100<<10)
	early := "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + refusal
	long := "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 300000\r\n\r\n" + strings.Repeat("f", 300000)
	unending := "HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfull\n\r\n"
	for name, tc := range map[string]struct {
		method, body string
		first        string // what A says
		second       string // what B says; "": there is none
		on           []int
		change       func(*Route)
		status       int
		answer       string
	}{
		"GET":                       {"GET", "", refusal, ok, []int{503}, nil, 200, "ok"},
		"DELETE":                    {"DELETE", "", refusal, ok, []int{502, 503}, nil, 200, "ok"},
		"GET with a body":           {"GET", "x", refusal, ok, []int{503}, nil, 200, "ok"},
		"PUT":                       {"PUT", small, refusal, ok, []int{503}, nil, 200, "ok"},
		"PUT over the limit":        {"PUT", large, refusal, ok, []int{503}, nil, 503, "full\n"},
		"POST":                      {"POST", small, refusal, ok, []int{503}, nil, 503, "full\n"},
		"POST, empty":               {"POST", "", refusal, ok, []int{503}, nil, 503, "full\n"},
		"not asked for":             {"GET", "", refusal, ok, nil, nil, 503, "full\n"},
		"another status":            {"GET", "", refusal, ok, []int{502, 504}, nil, 503, "full\n"},
		"one attempt":               {"GET", "", refusal, ok, []int{503}, func(rt *Route) { rt.Retry.Attempts = 1 }, 503, "full\n"},
		"nobody else":               {"GET", "", refusal, "", []int{503}, nil, 503, "full\n"},
		"both":                      {"GET", "", refusal, long, []int{503}, nil, 503, long[len(long)-300000:]},
		"only keys count":           {"GET", "", refusal, ok, []int{503}, func(rt *Route) { rt.Retry.Idempotent, rt.Retry.IdempotencyKey = false, true }, 503, "full\n"},
		"a 1xx has left":            {"GET", "", early, ok, []int{503}, nil, 503, "full\n"},
		"a long answer is given up": {"GET", "", long, ok, []int{503}, nil, 200, "ok"},
		"an unending answer":        {"GET", "", unending, ok, []int{503}, nil, 200, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := make(chan message, 4), make(chan message, 4)
			list := []Instance{instanceOf(startApp(t, "a0", digest(first, tc.first)), "m0")}
			if tc.second == "" {
				list = append(list, deaf(t, "a1"))
			} else {
				list = append(list, instanceOf(startApp(t, "a1", digest(second, tc.second)), "m1"))
			}
			r := startRig(t, setup{apps: list, cfg: routed(func(rt *Route) {
				rt.Retry.Statuses = tc.on
				if tc.change != nil {
					tc.change(rt)
				}
			})})
			length := ""
			if tc.body != "" || tc.method == "POST" {
				length = fmt.Sprintf("Content-Length: %d\r\n", len(tc.body))
			}
			nc, br := r.put(t, strings.NewReader(tc.method+" /p HTTP/1.1\r\nHost: x\r\n"+length+"\r\n"+tc.body))
			if tc.first == early {
				if resp, _ := read(t, br, tc.method); resp.StatusCode != 103 {
					t.Fatalf("status %d before the answer", resp.StatusCode)
				}
			}
			resp, body := read(t, br, tc.method)
			if resp.StatusCode != tc.status || body != tc.answer {
				t.Fatalf("%d and %d bytes, want %d", resp.StatusCode, len(body), tc.status)
			}
			a := <-first
			none(t, first)
			if tc.status == 200 || name == "both" {
				if b := <-second; a != b || !a.of(tc.body) {
					t.Errorf("first %+v, then %+v", a, b)
				}
			} else {
				none(t, second)
			}
			if resp.Header.Get("Rondel-Request-Id") != a.id || len(resp.Header.Values("Set-Cookie")) != 1 {
				t.Errorf("head %v", resp.Header)
			}
			want := uint64(0) // a refused connection is a failure too
			for _, s := range tc.on {
				if s == 503 {
					want = 1
				}
			}
			if name == "both" || name == "nobody else" {
				want++
			}
			if f := r.idle(t).Failures; f != want {
				t.Errorf("%d failures, want %d", f, want)
			}
			nc.Close()
		})
	}
}

// Tries are bounded, each goes to another instance, and all carry the same id.
func TestCase_D06_attempts(t *testing.T) {
	t.Parallel()
	for attempts, status := range map[int]int{1: 502, 2: 502, 3: 502, 4: 200} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			t.Parallel()
			got := make(chan message, 8)
			var list []Instance
			for n, reply := range []string{"", "", "", ok} {
				list = append(list, instanceOf(startApp(t, fmt.Sprint("a", n), digest(got, reply)), "m0"))
			}
			r := startRig(t, setup{apps: list, cfg: routed(func(rt *Route) { rt.Retry.Attempts = attempts })})
			resp, _ := r.request(t, "/", "")
			if resp.StatusCode != status || len(got) != attempts {
				t.Errorf("status %d after %d tries", resp.StatusCode, len(got))
			}
			for range attempts {
				if m := <-got; m.id != resp.Header.Get("Rondel-Request-Id") {
					t.Errorf("a try had the id %q, the answer %q", m.id, resp.Header.Get("Rondel-Request-Id"))
				}
			}
			for _, c := range r.Counters() {
				if c.Requests > 1 {
					t.Errorf("%s was asked %d times", c.ID, c.Requests)
				}
			}
		})
	}
}

// After the time that a route gives, no try begins.
func TestCase_D06_totalTime(t *testing.T) {
	t.Parallel()
	got := make(chan message, 8)
	late := startApp(t, "a0", func(nc net.Conn) {
		nc.Read(make([]byte, 4096))
		nc.SetReadDeadline(time.Now().Add(150 * time.Millisecond))
		nc.Read(make([]byte, 1))
	})
	list := []Instance{instanceOf(late, "m0"), instanceOf(startApp(t, "a1", digest(got, ok)), "m1")}
	r := startRig(t, setup{apps: list, cfg: routed(func(rt *Route) { rt.Retry.Within = 50 * time.Millisecond })})
	if resp, _ := r.request(t, "/", ""); resp.StatusCode != 502 {
		t.Errorf("status %d", resp.StatusCode)
	}
	none(t, got)
}

// Once a byte of an answer has left there is no other try, and the client can
// tell that the answer is not whole.
func TestCase_D06_neverAfterTheFirstByte(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"sized":   "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"head":    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan message, 8)
			half := startApp(t, "a0", func(nc net.Conn) {
				nc.Read(make([]byte, 4096))
				io.WriteString(nc, reply)
			})
			list := []Instance{instanceOf(half, "m0"), instanceOf(startApp(t, "a1", digest(got, ok)), "m1")}
			r := startRig(t, setup{apps: list})
			_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			head := rawHead(t, br)
			rest, _ := io.ReadAll(br)
			if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || strings.HasSuffix(string(rest), "0\r\n\r\n") || strings.Contains(string(rest), "ok") {
				t.Errorf("%q, then %q", head, rest)
			}
			none(t, got)
		})
	}
}

// No try invents, drops or changes framing.
func TestCase_D06_framingIsKept(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ method, fields, body, want string }{
		"GET":            {"GET", "", "", "[] []"},
		"DELETE":         {"DELETE", "", "", "[] []"},
		"POST, empty":    {"POST", "Content-Length: 0\r\n", "", "[0] []"},
		"POST, no field": {"POST", "", "", "[] []"},
		"GET, body":      {"GET", "Content-Length: 1\r\n", "x", "[1] []"},
		"PUT, chunked":   {"PUT", "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n2;a=b\r\nyz\r\n0\r\nX-Sum: 1\r\n\r\n", "[] [chunked]"},
		"PUT, no chunk":  {"PUT", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n", "[] [chunked]"},
		"HTTP/1.0":       {"GET", "Connection: keep-alive\r\n", "", "[] []"},
	} {
		for how, first := range map[string]func(t *testing.T) Instance{
			"refused": func(t *testing.T) Instance { return deaf(t, "a0") },
			"broken off": func(t *testing.T) Instance {
				return instanceOf(startApp(t, "a0", digest(make(chan message, 1), "")), "m0")
			},
			"unwanted": func(t *testing.T) Instance {
				return instanceOf(startApp(t, "a0", digest(make(chan message, 1), refusal)), "m0")
			},
		} {
			if how != "refused" && tc.method == "POST" {
				continue
			}
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				got := make(chan message, 1)
				list := []Instance{first(t), instanceOf(startApp(t, "a1", digest(got, ok)), "m1")}
				r := startRig(t, setup{apps: list, cfg: routed(func(rt *Route) { rt.Retry.Statuses = []int{503} })})
				version := "1.1"
				if name == "HTTP/1.0" {
					version = "1.0"
				}
				_, br := r.send(t, tc.method+" / HTTP/"+version+"\r\nHost: x\r\n"+tc.fields+"\r\n"+tc.body)
				if resp, _ := read(t, br, tc.method); resp.StatusCode != 200 {
					t.Fatalf("status %d", resp.StatusCode)
				}
				m := <-got
				body := map[string]string{"PUT, chunked": "xyz", "GET, body": "x"}[name]
				if m.framing != tc.want || !m.of(body) {
					t.Errorf("the app saw %+v", m)
				}
			})
		}
	}
}
