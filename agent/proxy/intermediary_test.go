package proxy

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// RFC 9110, section 6.6.1: a response without a date gets one, and no other is touched.
func TestPassing_date(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ head, want string }{
		"none":   {"", ""},
		"its":    {"Date: Tue, 15 Nov 1994 08:12:31 GMT\r\n", "Tue, 15 Nov 1994 08:12:31 GMT"},
		"spelt":  {"DATE:yesterday\r\n", "yesterday"},
		"cached": {"Age: 5\r\ndate: x\r\n", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", raw(nil, "HTTP/1.1 200 OK\r\n"+tc.head+"Content-Length: 2\r\n\r\nok"))
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			began := time.Now().Truncate(time.Second)
			resp, _ := r.request(t, "/", "")
			got := resp.Header.Values("Date")
			if tc.want != "" {
				if len(got) != 1 || got[0] != tc.want {
					t.Errorf("dates %q", got)
				}
				return
			}
			if at, err := http.ParseTime(resp.Header.Get("Date")); len(got) != 1 || err != nil || at.Before(began) || at.After(time.Now()) {
				t.Errorf("dates %q", got)
			}
		})
	}
	r := startRig(t, setup{})
	if resp, _ := r.request(t, "/", ""); resp.Header.Get("Date") == "" {
		t.Error("no date in an answer of the proxy's own")
	}
	_, br := r.send(t, "BAD\r\n\r\n")
	if resp, _ := read(t, br, "GET"); resp.Header.Get("Date") == "" {
		t.Error("no date in a refusal")
	}
}

// D-09: what tells of the client comes from trusted peers alone, whatever its
// exact name. RFC 9110, section 7.6.3: a gateway says that it was there.
func TestPassing_whatOthersTellOfTheClient(t *testing.T) {
	t.Parallel()
	const head = "Host: x\r\nVia: 1.0 cache\r\nX-Forwarded-User: root\r\nX_Forwarded_Prefix: /a\r\nx-forwarded-port: 1\r\n" +
		"X-Forwarded-Proto: https, http\r\nX-Forwarded-: x\r\nX-Forwarder: y\r\n"
	for name, tc := range map[string]struct {
		trusted []netip.Prefix
		version string
		want    []string
		not     []string
	}{
		"strangers": {nil, "1.1", []string{"Via: 1.0 cache\r\n", "Via: 1.1 rondel\r\n", "X-Forwarded-: x\r\n", "X-Forwarder: y\r\n", "X-Forwarded-Proto: http\r\n"},
			[]string{"root", "Prefix", "port: 1"}},
		"trusted": {[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, "1.1",
			[]string{"X-Forwarded-User: root\r\n", "X_Forwarded_Prefix: /a\r\n", "x-forwarded-port: 1\r\n", "X-Forwarded-Proto: http\r\n"}, nil},
		"old": {nil, "1.0", []string{"Via: 1.0 rondel\r\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			a := startApp(t, "a1", raw(got, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
			cfg := DefaultConfig()
			cfg.Routes = []Route{DefaultRoute("shop")}
			cfg.Trusted = tc.trusted
			r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.send(t, "GET / HTTP/"+tc.version+"\r\n"+head+"\r\n")
			read(t, br, "GET")
			nc.Close()
			seen := <-got
			for _, w := range tc.want {
				if strings.Count(seen, w) != 1 {
					t.Errorf("%q is not there once in %q", w, seen)
				}
			}
			for _, w := range tc.not {
				if strings.Contains(seen, w) {
					t.Errorf("%q is there in %q", w, seen)
				}
			}
		})
	}
}

// RFC 9110, section 7.6.2.
func TestPassing_maxForwards(t *testing.T) {
	t.Parallel()
	for ask, want := range map[string]struct {
		status int
		line   string // at the instance; "": it sees nothing
	}{
		"OPTIONS / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n":    {204, ""},
		"TRACE / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n":      {405, ""},
		"TRACE / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 3\r\n":      {200, "Max-Forwards: 2\r\n"},
		"OPTIONS / HTTP/1.1\r\nHost: x\r\nmax-forwards: 10\r\n":   {200, "Max-Forwards: 9\r\n"},
		"OPTIONS / HTTP/1.1\r\nHost: x\r\nMax-Forwards: many\r\n": {200, "Max-Forwards: many\r\n"},
		"GET / HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n":        {200, "Max-Forwards: 0\r\n"},
	} {
		t.Run(ask[:20], func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 1)
			a := startApp(t, "a1", raw(got, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.send(t, ask+"Connection: close\r\n\r\n")
			resp, _ := read(t, br, "GET")
			rest, _ := io.ReadAll(br)
			nc.Close()
			if resp.StatusCode != want.status || len(rest) != 0 {
				t.Errorf("%d, then %q", resp.StatusCode, rest)
			}
			switch {
			case want.line == "" && len(got) != 0:
				t.Error("the instance saw it")
			case want.line != "":
				if seen := <-got; strings.Count(strings.ToLower(seen), "max-forwards") != 1 || !strings.Contains(seen, want.line) {
					t.Errorf("the instance saw %q", seen)
				}
			}
		})
	}
}
