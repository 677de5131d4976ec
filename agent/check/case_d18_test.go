package check_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/agent/check"
)

// rawApp answers each connection, after a request's head, with the bytes that
// it is told to, and then leaves the connection open if it is to hang.
type rawApp struct {
	addr  string
	reply atomic.Pointer[string]
	hang  atomic.Bool
	open  atomic.Int32
	seen  atomic.Int32
}

func startRaw(t *testing.T) *rawApp {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &rawApp{addr: ln.Addr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			a.open.Add(1)
			a.seen.Add(1)
			go func() {
				defer a.open.Add(-1)
				defer nc.Close()
				br := bufio.NewReader(nc)
				for line := ""; line != "\r\n"; {
					var err error
					if line, err = br.ReadString('\n'); err != nil {
						return
					}
				}
				if reply := a.reply.Load(); reply != nil {
					io.WriteString(nc, *reply)
				}
				if a.hang.Load() {
					io.Copy(io.Discard, br)
				}
			}()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
		await(t, "its connections have ended", func() bool { return a.open.Load() == 0 })
	})
	return a
}

func (a *rawApp) say(reply string, hang bool) {
	a.hang.Store(hang)
	a.reply.Store(&reply)
}

func head(line string) string { return "HTTP/1.1 " + line + "\r\nContent-Length: 0\r\n\r\n" }

// D-18: an instance that answers one way after another; each change is told
// once, with its reason, and no connection is left.
func TestCase_D18_switchableStatus(t *testing.T) {
	t.Parallel()
	app := startRaw(t)
	app.say(head("200 OK"), false)
	r, got := start(t)
	r.Set("a", []check.Spec{normal(t, check.Spec{HTTP: "/health", Interval: 200 * time.Millisecond, Timeout: 150 * time.Millisecond}, app.addr)})
	for _, step := range []struct {
		name, reply string
		hang        bool
		want        check.Status
		reason      string
	}{
		{"200", head("200 OK"), false, check.Passing, "status 200"},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", false, check.Passing, "status 204"},
		{"301", "HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", false, check.Passing, "status 301"},
		{"401", head("401 No"), false, check.Critical, "status 401, want 200-399"},
		{"302 to nowhere", "HTTP/1.1 302 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", false, check.Passing, "status 302"},
		{"500", head("500 Oh"), false, check.Critical, "status 500, want 200-399"},
		{"429", head("429 Too Many"), false, check.Warning, "status 429: warning"},
		{"hang", "", true, check.Critical, "no answer within 150ms"},
		{"200 after it", head("200 OK"), false, check.Passing, "status 200"},
		{"garbage", "\x00\x01 what?\r\n\r\n", false, check.Critical, "malformed"},
		{"200 after that", head("200 OK"), false, check.Passing, "status 200"},
		{"half a header", "HTTP/1.1 200 OK\r\nContent-Le", false, check.Critical, ""},
		{"half a header, then nothing", "HTTP/1.1 200 OK\r\nContent-Le", true, check.Critical, "no answer within"},
		{"no answer", "", false, check.Critical, ""},
		{"200 in the end", head("200 OK"), false, check.Passing, "status 200"},
	} {
		app.say(step.reply, step.hang)
		await(t, step.name, func() bool {
			s := r.States("a")[0]
			return s.Status == step.want && strings.Contains(s.Reason, step.reason)
		})
		// A machine that is busy may let a probe run out of time, which is
		// then told too; what stays is never told again.
		await(t, step.name+": it is told", func() bool {
			all := got.list()
			return len(all) > 0 && all[len(all)-1].Status == step.want
		})
		prev := check.Critical
		for _, s := range got.list() {
			if s.Status == prev || s.Reason == "" {
				t.Fatalf("%s: told %+v after %s", step.name, s, prev)
			}
			prev = s.Status
		}
	}
	seen := app.seen.Load()
	await(t, "more probes", func() bool { return app.seen.Load() > seen+5 })
	await(t, "no connection is open but the one of a probe", func() bool { return app.open.Load() <= 1 })
}

// D-18: state is kept for each instance and check, also where two services
// are at one address.
func TestCase_D18_oneAddressTwoServices(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/bad" {
			w.WriteHeader(500)
		}
	}))
	t.Cleanup(app.Close)
	addr := app.Listener.Addr().String()
	// Time stands still in here while a probe is under way, so none is late.
	synctest.Test(t, func(t *testing.T) {
		r, got := start(t)
		spec := func(path string) check.Spec {
			return normal(t, check.Spec{HTTP: path, Interval: time.Minute, Timeout: 50 * time.Second}, addr)
		}
		r.Set("a", []check.Spec{spec("/good"), spec("/bad")})
		r.Set("b", []check.Spec{spec("/good")})
		for range 5 {
			time.Sleep(time.Minute)
			a, b := r.States("a"), r.States("b")
			if a[0].Status != check.Passing || !strings.HasPrefix(a[1].Reason, "status 500") || b[0].Status != check.Passing {
				t.Errorf("%+v %+v", a, b)
			}
		}
		if all := got.list(); len(all) != 2 {
			t.Errorf("flapped: %+v", all)
		}
	})
}

// D-18: what is asked is configurable: method, Host, scheme, and what the
// instance speaks.
func TestCase_D18_whatIsAsked(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodHead || q.Host != "shop.example.com" || q.URL.Path != "/health" {
			w.WriteHeader(http.StatusTeapot)
		}
		w.Header().Set("X-Protocol", q.Proto)
	})
	serve := func(tls bool, change func(*http.Protocols)) string {
		app := httptest.NewUnstartedServer(handler)
		app.Config.Protocols = &http.Protocols{}
		change(app.Config.Protocols)
		if tls {
			app.EnableHTTP2 = app.Config.Protocols.HTTP2()
			app.StartTLS()
		} else {
			app.Start()
		}
		t.Cleanup(app.Close)
		return app.Listener.Addr().String()
	}
	plain := serve(false, func(p *http.Protocols) { p.SetHTTP1(true) })
	secure := serve(true, func(p *http.Protocols) { p.SetHTTP1(true) })
	h2c := serve(false, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
	h2 := serve(true, func(p *http.Protocols) { p.SetHTTP2(true) })
	for name, tc := range map[string]struct {
		addr string
		spec check.Spec
		want check.Status
	}{
		"http":            {plain, check.Spec{}, check.Passing},
		"https by scheme": {secure, check.Spec{Scheme: "https"}, check.Passing},
		"https as spoken": {secure, check.Spec{Protocol: "https"}, check.Passing},
		"h2":              {h2, check.Spec{Protocol: "h2"}, check.Passing},
		"h2c":             {h2c, check.Spec{Protocol: "h2c"}, check.Passing},
		"http to https":   {secure, check.Spec{Scheme: "http", Protocol: "https"}, check.Critical},
		"another host":    {plain, check.Spec{Host: "other"}, check.Critical},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.spec
			s.HTTP, s.Method, s.Interval, s.Timeout = "/health", "HEAD", time.Minute, 30*time.Second
			if s.Host == "" {
				s.Host = "shop.example.com"
			}
			r, _ := start(t)
			r.Set("a", []check.Spec{normal(t, s, tc.addr)})
			await(t, name, func() bool {
				s := r.States("a")[0]
				if s.Status != tc.want && s.Reason != "not checked yet" {
					t.Fatalf("%+v", s)
				}
				return s.Status == tc.want && s.Reason != "not checked yet"
			})
		})
	}
}

// D-18: a body that is matched is read up to a limit, however much comes.
func TestCase_D18_bodyLimit(t *testing.T) {
	t.Parallel()
	sent := make(chan int, 100)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		all := 0
		defer func() { sent <- all }()
		io.WriteString(w, "well")
		for line := strings.Repeat("x", 32<<10); ; {
			n, err := io.WriteString(w, line)
			if all += n; err != nil {
				return
			}
		}
	}))
	t.Cleanup(app.Close)
	r, _ := start(t)
	addr := app.Listener.Addr().String()
	spec := check.Spec{HTTP: "/", Interval: time.Minute, Timeout: 30 * time.Second, Contains: "well"}
	missing := spec
	missing.Contains = "unwell"
	r.Set("a", []check.Spec{normal(t, spec, addr), normal(t, missing, addr)})
	await(t, "one matches, the other not", func() bool {
		s := r.States("a")
		return s[0].Status == check.Passing && strings.Contains(s[1].Reason, "the first 65536 bytes")
	})
	for range 2 {
		if n := <-sent; n > 64<<20 { // what the system keeps for who never reads counts, too
			t.Errorf("%d bytes were taken", n)
		}
	}
}
