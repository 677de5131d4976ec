package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func newClient(t *testing.T, h http.HandlerFunc) *client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c := &client{addr: s.Listener.Addr().String(), cookies: map[string]string{}}
	t.Cleanup(c.close)
	return c
}

func TestClient_bringsItsCookiesAndCountsWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	n := 0
	c := newClient(t, func(w http.ResponseWriter, q *http.Request) {
		if n++; n == 1 {
			http.SetCookie(w, &http.Cookie{Name: "RONDEL", Value: "abc.t1"})
		} else if k, err := q.Cookie("RONDEL"); err != nil || k.Value != "abc.t1" {
			t.Errorf("request %d: %v, %v", n, k, err)
		}
		if q.Method == http.MethodPost && q.Header.Get("Key") != "k1" {
			t.Errorf("key %q", q.Header.Get("Key"))
		}
		fmt.Fprintln(w, "b001", n)
	})
	for i, key := range []string{"", "k1", ""} {
		name, counter, why := c.do(t.Context(), key)
		if name != "b001" || counter != i+1 || why != "" {
			t.Errorf("%s %d %q", name, counter, why)
		}
	}
	if c.floor() != 1 || len(c.idle) != 1 || sessionOf(c.cookies) != "abc" {
		t.Errorf("%d acknowledged, %d connections, session %q", c.floor(), len(c.idle), sessionOf(c.cookies))
	}
}

func TestClient_repeatsNothing(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 1:
			fmt.Fprintln(w, "b001 0")
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	for i, want := range []string{"", "connection closed", "status 502"} {
		if _, _, why := c.do(t.Context(), ""); why != want || int(n.Load()) != i+1 {
			t.Errorf("%q after %d requests, want %q", why, n.Load(), want)
		}
	}
	c.addr = "127.0.0.1:1"
	if _, _, why := c.do(t.Context(), ""); why != "no connection to the proxy" {
		t.Error(why)
	}
}

// agentAPI is as much of an agent as instances need: one counter.
func agentAPI(t *testing.T, n *atomic.Int64) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/attributes/items/incr") && q.Header.Get("Idempotency-Key") == "k1":
			fmt.Fprintf(w, `{"ID":"x","Value":%d}`, n.Add(1))
		case q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/attributes/items") && n.Load() > 0:
			fmt.Fprintln(w, n.Load())
		default:
			http.NotFound(w, q)
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestInstance_countsInTheSession(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	var log bytes.Buffer
	i := &instance{name: "b001", work: time.Microsecond, agent: agentAPI(t, &n), log: &log, api: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(i.api.CloseIdleConnections)
	ask := func(method, session, key string) (int, string) {
		q := httptest.NewRequestWithContext(context.Background(), method, "/cart", nil)
		q.Header.Set("Rondel-Session", session)
		q.Header.Set("Key", key)
		w := httptest.NewRecorder()
		i.ServeHTTP(w, q)
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	for _, c := range []struct {
		method, key, want string
	}{{"GET", "", "b001 0"}, {"POST", "k1", "b001 1"}, {"GET", "", "b001 1"}} {
		if code, got := ask(c.method, "abc", c.key); code != 200 || got != c.want {
			t.Errorf("%s: %d %q, want %q", c.method, code, got, c.want)
		}
	}
	if log.String() != "k1\n" {
		t.Errorf("it wrote %q", log.String())
	}
	if code, _ := ask("POST", "abc", "k9"); code != 500 { // the agent refuses this one
		t.Errorf("status %d", code)
	}
	if code, _ := ask("GET", "", ""); code != 500 {
		t.Errorf("status %d without a session", code)
	}
}
