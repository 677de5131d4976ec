package load

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// instance answers as instances do; which one it is, the cookie says.
func instance(w http.ResponseWriter, q *http.Request) {
	c, err := q.Cookie("SRV")
	name := "b009"
	if err == nil {
		name = c.Value
	}
	switch q.URL.Path {
	case "/503":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "/other":
		name = "b007"
	case "/chunked":
		w.(http.Flusher).Flush()
	case "/gone":
		panic(http.ErrAbortHandler)
	}
	size := 1024
	if q.URL.Path == "/64k" {
		size = 65536
	}
	fmt.Fprint(w, name, " ")
	if q.URL.Path == "/64k" {
		w.Header().Set("Content-Length", fmt.Sprint(size))
	}
	fmt.Fprint(w, strings.Repeat("x", size-NameLen-1))
}

func TestRun(t *testing.T) {
	t.Parallel()
	length := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/chunked" {
			n := 1024
			if q.URL.Path == "/64k" {
				n = 65536
			}
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		instance(w, q)
	})
	plain := httptest.NewServer(length)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(length)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	clients := []Client{{"SRV=b001", "b001"}, {"SRV=b002", "b002"}, {"SRV=b003", "b003"}}
	for name, c := range map[string]struct {
		plan Plan
		err  error
	}{
		"a client a connection":    {Plan{Path: "/1k", Clients: clients}, nil},
		"shared":                   {Plan{Path: "/1k", Clients: clients, Shared: true}, nil},
		"new clients":              {Plan{Path: "/1k"}, nil},
		"new connections":          {Plan{Path: "/1k", Clients: clients, Close: true}, nil},
		"long":                     {Plan{Path: "/64k", Clients: clients, Shared: true}, nil},
		"long, new connections":    {Plan{Path: "/64k", Clients: clients, Close: true}, nil},
		"TLS":                      {Plan{Path: "/1k", Clients: clients, Shared: true, TLS: true}, nil},
		"TLS, long":                {Plan{Path: "/64k", Clients: clients, TLS: true}, nil},
		"TLS, new connections":     {Plan{Path: "/1k", Clients: clients, TLS: true, Close: true}, nil},
		"wrong instance":           {Plan{Path: "/other", Clients: clients}, errInstance},
		"wrong instance, with TLS": {Plan{Path: "/other", Clients: clients, TLS: true}, errInstance},
		"status":                   {Plan{Path: "/503", Clients: clients}, errStatus},
		"no length":                {Plan{Path: "/chunked", Clients: clients}, errNoLength},
		"broken off":               {Plan{Path: "/gone", Clients: clients}, errBroken},
		"broken off, with TLS":     {Plan{Path: "/gone", Clients: clients, TLS: true}, errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := c.plan
			p.Conns, p.Threads, p.For, p.Addr = 5, 2, 50*time.Millisecond, plain.Listener.Addr().String()
			if p.TLS {
				p.Addr = secure.Listener.Addr().String()
			}
			got, err := Run(p)
			if err != nil {
				t.Fatal(err)
			}
			var counted uint64
			for _, n := range got.Latencies.Counts {
				counted += n
			}
			if counted != uint64(got.Requests) || got.Took < p.For {
				t.Errorf("%d latencies of %d requests in %v", counted, got.Requests, got.Took)
			}
			if c.err == nil && (got.Requests == 0 || got.Failed() > 0) {
				t.Errorf("%d requests, errors %v", got.Requests, got.Errors)
			}
			if c.err != nil && (got.Requests > 0 || len(got.Errors) != 1 || got.Errors[c.err.Error()] == 0) {
				t.Errorf("%d requests, errors %v; want %q alone", got.Requests, got.Errors, c.err)
			}
		})
	}
}

func TestRun_nobodyListens(t *testing.T) {
	t.Parallel()
	const addr = "127.0.0.1:1"
	got, err := Run(Plan{Addr: addr, Path: "/", Conns: 2, Threads: 1, For: 10 * time.Millisecond})
	if err == nil && (got.Requests > 0 || got.Errors[errConnect.Error()] == 0) {
		t.Errorf("%d requests, errors %v", got.Requests, got.Errors)
	}
	if _, err := Run(Plan{Addr: addr}); err == nil {
		t.Error("a load of no connections")
	}
}

func TestRequests_inTurn(t *testing.T) {
	t.Parallel()
	p := &Plan{Path: "/1k", Threads: 2, Shared: true, Clients: []Client{{"A=1", "b001"}, {"A=2", "b002"}, {"A=3", "b003"}, {"A=4", "b004"}}}
	r := newRequests(p, 1)
	seen := map[string]int{}
	for range 8 {
		text, want := r.appendTo(nil, 0)
		if !strings.HasPrefix(string(text), "GET /1k HTTP/1.1\r\n") || !strings.HasSuffix(string(text), "\r\n\r\n") || !strings.Contains(string(text), "\r\nCookie: A="+want[3:]+"\r\n") {
			t.Errorf("%q for %s", text, want)
		}
		seen[want]++
	}
	if want := map[string]int{"b001": 2, "b002": 2, "b003": 2, "b004": 2}; !maps.Equal(seen, want) {
		t.Errorf("sent %v", seen)
	}
	p.Shared = false
	if _, want := r.appendTo(nil, 6); want != "b003" {
		t.Errorf("connection 6 is the client of %s", want)
	}
	p.Clients = nil
	if text, want := r.appendTo(nil, 6); want != "" || strings.Contains(string(text), "Cookie") {
		t.Errorf("a new client: %q for %q", text, want)
	}
}
