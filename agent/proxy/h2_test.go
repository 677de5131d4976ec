package proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// h2Client speaks HTTP/2 without TLS, in one connection as a rule.
func h2Client(t testing.TB) *http.Client {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &p, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: time.Minute}
}

// h2cConfig is what a proxy runs on whose clients may speak HTTP/2 without TLS.
func h2cConfig() Config {
	cfg := DefaultConfig()
	cfg.H2C = true
	cfg.Routes = []Route{DefaultRoute("shop")}
	return unhurried(cfg)
}

// h2App is an instance that speaks HTTP/2 by the standard library.
type h2App struct {
	*httptest.Server
	mu   sync.Mutex
	open map[net.Conn]bool
	seen int
}

func startH2App(t testing.TB, secure bool, h http.HandlerFunc) *h2App {
	t.Helper()
	a := &h2App{open: map[net.Conn]bool{}}
	a.Server = httptest.NewUnstartedServer(h)
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	a.Config.Protocols = &p
	a.Config.ConnState = func(nc net.Conn, s http.ConnState) {
		a.mu.Lock()
		defer a.mu.Unlock()
		switch s {
		case http.StateNew:
			a.seen++
			a.open[nc] = true
		case http.StateClosed:
			delete(a.open, nc)
		}
	}
	if secure {
		a.EnableHTTP2 = true
		a.StartTLS()
	} else {
		a.Start()
	}
	t.Cleanup(func() { a.CloseClientConnections(); a.Close() })
	return a
}

func (a *h2App) conns() (open, seen int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open), a.seen
}

func (a *h2App) instance(id, protocol string) Instance {
	return Instance{Service: "shop", ID: id, Member: "m1", Addr: a.Listener.Addr().String(), Weight: 100, Health: Passing, Protocol: protocol}
}

func h2Get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func TestH2_requestsShareAConnection(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{instanceOf(a, "m1")}})
	c := h2Client(t)
	h2Get(t, c, "http://"+r.addr+"/") // else it may make several connections at first
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			body := strings.Repeat("x", n*1000)
			resp, err := c.Post(fmt.Sprintf("http://%s/%d", r.addr, n), "text/plain", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != 200 || !strings.HasPrefix(string(b), fmt.Sprintf("a1 /%d v1", n)) || !strings.HasSuffix(string(b), fmt.Sprintf(" %d", n*1000)) {
				t.Errorf("%v %v %q", err, resp.Status, b)
			}
		})
	}
	all.Wait()
	if n := r.Totals(); n.Requests != 101 || n.Failures != 0 {
		t.Errorf("%+v", n)
	}
	r.connMu.Lock()
	conns := 0
	for c := range r.conns {
		if c.stream == nil {
			conns++
		}
	}
	r.connMu.Unlock()
	if conns != 1 {
		t.Errorf("%d connections", conns)
	}
}

func TestH2_toInstances(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"h2c", "h2", "https"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			a := startH2App(t, protocol != "h2c", func(w http.ResponseWriter, q *http.Request) {
				b, err := io.ReadAll(q.Body)
				if err != nil {
					t.Error(err)
				}
				w.Header().Set("Via-Was", q.Header.Get("Via"))
				fmt.Fprintf(w, "%s %s %d %s", q.Proto, q.RequestURI, len(b), q.Header.Get("Te"))
			})
			cfg := h2cConfig()
			if protocol != "h2c" {
				cfg.InstanceTLS.Roots = a.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			}
			r := startRig(t, setup{cfg: cfg, apps: []Instance{a.instance("a1", protocol)}})
			want := "HTTP/2.0"
			if protocol == "https" {
				want = "HTTP/1.1"
			}
			for n := range 3 {
				_, br := r.send(t, fmt.Sprintf("PUT /a%%2Fb?%d HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", n))
				resp, body := read(t, br, "PUT") // for which a connection may have rested for long
				if resp.StatusCode != 200 || body != fmt.Sprintf("%s /a%%2Fb?%d 5 trailers", want, n) || resp.Header.Get("Via-Was") != "1.1 rondel" {
					t.Errorf("%v %q", resp.Status, body)
				}
				// The answer is there a moment before its connection can carry another request.
				eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
			}
			resp, body := h2Get(t, h2Client(t), "http://"+r.addr+"/x")
			if resp.StatusCode != 200 || body != want+" /x 0 " || resp.Header.Get("Via-Was") != "2 rondel" {
				t.Errorf("%v %q", resp.Status, body)
			}
			if _, seen := a.conns(); seen != 1 {
				t.Errorf("%d connections", seen)
			}
			eventually(t, "nothing is under way", func() bool { return r.Totals().InFlight == 0 })
			if n := r.Totals(); n.Requests != 4 || n.Failures != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

func TestH2_overTLS(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	lender := httptest.NewUnstartedServer(nil)
	lender.StartTLS()
	defer lender.Close()
	p, err := New(Options{Config: h2cConfig(), Sessions: newSessions(), TagKey: []byte("k")})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances([]Instance{instanceOf(a, "m1")})
	r := serveRigOn(t, p, &Door{Listener: listen(t), TLS: &tls.Config{Certificates: lender.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}})
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	resp, body := h2Get(t, &http.Client{Transport: tr}, "https://"+r.addr+"/x")
	if resp.ProtoMajor != 2 || resp.StatusCode != 200 || !strings.HasPrefix(body, "a1 /x v1") {
		t.Errorf("%v %q", resp, body)
	}
	if c := resp.Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("cookies %v", c)
	}
	plain := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	defer plain.CloseIdleConnections()
	if resp, _ := h2Get(t, &http.Client{Transport: plain}, "https://"+r.addr+"/x"); resp.ProtoMajor != 1 {
		t.Errorf("%v", resp)
	}
}

func TestH2_stopsWhenRequestsHaveEnded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	begun := make(chan struct{}, 1)
	a := startH2App(t, false, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/slow" {
			begun <- struct{}{}
			<-release
		}
		io.WriteString(w, "all of it")
	})
	r := startRig(t, setup{cfg: h2cConfig(), apps: []Instance{a.instance("a1", "h2c")}})
	c := h2Client(t)
	h2Get(t, c, "http://"+r.addr+"/")
	got := make(chan string)
	go func() {
		_, body := h2Get(t, c, "http://"+r.addr+"/slow")
		got <- body
	}()
	<-begun
	stopped := make(chan error)
	go func() { stopped <- r.stop() }()
	eventually(t, "it stops", func() bool { return r.draining.Load() })
	select {
	case <-stopped:
		t.Fatal("stopped before the request had ended")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if body := <-got; body != "all of it" {
		t.Errorf("got %q", body)
	}
	if err := soon(t, "it stops", stopped); err != nil {
		t.Error(err)
	}
	eventually(t, "no connection is left at the instance", func() bool { open, _ := a.conns(); return open == 0 })
}
