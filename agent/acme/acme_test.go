package acme_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/acme"
	"github.com/rondel-project/rondel/agent/acmetest"
	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) {
	acmetest.Prepare()
	leaktest.Main(m, acmetest.Options()...)
}

// site runs a manager and answers for it.
type site struct {
	*acme.Manager
	log  *syncBuffer
	stop func() // once it runs

	mu    sync.Mutex
	shown []*tls.Certificate
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs a site at which the authority finds nobody new.
func start(t *testing.T, a *acmetest.Authority, change func(*acme.Options)) *site {
	t.Helper()
	s := newSite(t, a, change)
	s.run(t)
	return s
}

// startOpen runs a site at which the authority finds it.
func startOpen(t *testing.T, a *acmetest.Authority, change func(*acme.Options)) *site {
	t.Helper()
	s := newSite(t, a, change)
	s.listen(t, a)
	s.run(t)
	return s
}

func newSite(t *testing.T, a *acmetest.Authority, change func(*acme.Options)) *site {
	t.Helper()
	s := &site{log: &syncBuffer{}}
	opt := acme.Options{
		Hosts: []string{"shop.example.com"}, Directory: a.Directory, Roots: a.Roots, Email: "ops@example.com", HTTP: true, TLS: true,
		Log: hclog.New(&hclog.LoggerOptions{Output: s.log, Level: hclog.Info}),
		Changed: func(list []*tls.Certificate) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.shown = list
		},
	}
	change(&opt)
	m, err := acme.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	s.Manager = m
	return s
}

func (s *site) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
}

// listen opens the ports at which the authority finds the site. An order that
// begins before is answered by nobody, or by the site before.
func (s *site) listen(t *testing.T, a *acmetest.Authority) {
	t.Helper()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, ok := s.Answer(r.Context(), strings.TrimPrefix(r.URL.Path, acme.PathPrefix)); ok {
			fmt.Fprintln(w, text)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = hclog.NewNullLogger().StandardLogger(nil)
	secure.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){acme.Protocol: func(*http.Server, *tls.Conn, http.Handler) {}}
	secure.TLS = &tls.Config{NextProtos: []string{acme.Protocol}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{NextProtos: []string{acme.Protocol}, GetCertificate: s.Certificate}, nil
	}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	a.HTTP.To(plain.Listener.Addr().String())
	a.TLS.To(secure.Listener.Addr().String())
}

func (s *site) certificates() []*tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

func (s *site) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(4 * time.Minute) // an order that failed is repeated after a minute
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s\n%s", what, s.log)
		}
		<-tick.C
	}
}

func TestManager_obtains(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ http, tls bool }{"HTTP-01": {true, false}, "TLS-ALPN-01": {false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := acmetest.Start(t, time.Hour)
			dir := t.TempDir()
			set := func(o *acme.Options) {
				o.HTTP, o.TLS, o.Dir = tc.http, tc.tls, dir
				o.Hosts = []string{"shop.example.com", "blog.example.com"}
			}
			s := startOpen(t, a, set)
			s.await(t, "two certificates", func() bool { return len(s.certificates()) == 2 })
			for i, want := range []string{"shop.example.com", "blog.example.com"} {
				if c := s.certificates()[i]; c.Leaf.DNSNames[0] != want || len(c.Certificate) < 2 {
					t.Errorf("%v with a chain of %d", c.Leaf.DNSNames, len(c.Certificate))
				}
			}
			if (a.HTTP.Came() > 0) != tc.http || (a.TLS.Came() > 0) != tc.tls {
				t.Errorf("asked %d times by HTTP, %d times by TLS", a.HTTP.Came(), a.TLS.Came())
			}
			if _, ok := s.Answer(t.Context(), "anything"); ok {
				t.Error("there is something left to prove")
			}
			s.stop()

			// They are there after a restart, and nobody is asked.
			first := s.certificates()
			again := start(t, a, func(o *acme.Options) { set(o); o.Directory = a.Directory })
			if now := again.certificates(); len(now) != 2 || !bytes.Equal(now[0].Certificate[0], first[0].Certificate[0]) {
				t.Error("another certificate after a restart")
			}
			if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err == nil && info.Mode().Perm()&0o077 != 0 && path != dir {
					t.Errorf("%s has mode %s", path, info.Mode())
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestManager_renews(t *testing.T) {
	t.Parallel()
	a := acmetest.Start(t, 6*time.Second)
	s := startOpen(t, a, func(*acme.Options) {})
	s.await(t, "a certificate", func() bool { return len(s.certificates()) == 1 })
	first := s.certificates()[0].Leaf.SerialNumber
	s.await(t, "another certificate", func() bool { return s.certificates()[0].Leaf.SerialNumber.Cmp(first) != 0 })
}

// An authority that cannot be convinced costs nothing that is there, and is left
// alone for a while.
func TestManager_refused(t *testing.T) {
	t.Parallel()
	a := acmetest.Start(t, time.Hour)
	a.HTTP.To("127.0.0.1:1") // nobody is there
	s := start(t, a, func(o *acme.Options) { o.TLS = false })
	s.await(t, "it is said", func() bool { return strings.Contains(s.log.String(), "no certificate from the authority") })
	if n := strings.Count(s.log.String(), "no certificate from the authority"); n != 1 || !strings.Contains(s.log.String(), "again_in=1m0s") {
		t.Errorf("log %s", s.log)
	}
}

func TestManager_damagedFolder(t *testing.T) {
	t.Parallel()
	a := acmetest.Start(t, time.Hour)
	dir := t.TempDir()
	set := func(o *acme.Options) { o.Dir = dir }
	s := startOpen(t, a, set)
	s.await(t, "a certificate", func() bool { return len(s.certificates()) == 1 })
	s.stop()
	spoil := func(name string) {
		files, err := filepath.Glob(filepath.Join(dir, "*", name))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.WriteFile(files[0], []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil("shop.example.com.pem")
	s = startOpen(t, a, set)
	s.await(t, "a new certificate", func() bool { return len(s.certificates()) == 1 })
	s.stop()
	spoil("account.key")
	if _, err := acme.New(acme.Options{Hosts: []string{"shop.example.com"}, Directory: a.Directory, Dir: dir, Log: hclog.NewNullLogger(), Changed: func([]*tls.Certificate) {}}); err == nil || !strings.Contains(err.Error(), "restore it, or move it away") {
		t.Errorf("a damaged account: %v", err)
	}
}

// others is one other manager, and whether it is this one's turn.
type others struct {
	mu   sync.Mutex
	them *acme.Manager
	turn bool
}

func (o *others) other() *acme.Manager {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.them
}

func (o *others) Proof(_ context.Context, kind acme.Kind, name string) ([]byte, bool) {
	if m := o.other(); m != nil {
		return m.Proof(kind, name)
	}
	return nil, false
}

func (o *others) Tell(_ context.Context, kind acme.Kind, name string, answer []byte) {
	if m := o.other(); m != nil {
		m.Told(kind, name, answer)
	}
}

func (o *others) Bundles(_ context.Context, host string) [][]byte {
	if m := o.other(); m != nil && m.Bundle(host) != nil {
		return [][]byte{[]byte("nonsense"), m.Bundle(host)}
	}
	return nil
}

func (o *others) Turn() bool { return o.turn }

// One of two orders, the authority asks the other one, and both have the
// certificate in the end.
func TestManager_twoAgents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ http, tls bool }{"HTTP-01": {true, false}, "TLS-ALPN-01": {false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := acmetest.Start(t, time.Hour)
			toFirst, toSecond := &others{turn: false}, &others{turn: true}
			set := func(o *others) func(*acme.Options) {
				return func(opt *acme.Options) { opt.HTTP, opt.TLS, opt.Others = tc.http, tc.tls, o }
			}
			second := startOpen(t, a, set(toFirst))
			first := newSite(t, a, set(toSecond))
			toFirst.mu.Lock()
			toFirst.them = first.Manager
			toFirst.mu.Unlock()
			first.run(t)
			first.await(t, "the certificate, where it was ordered", func() bool { return len(first.certificates()) == 1 })
			second.await(t, "the certificate, at the other", func() bool { return len(second.certificates()) == 1 })
			if !bytes.Equal(first.certificates()[0].Certificate[0], second.certificates()[0].Certificate[0]) {
				t.Error("they have two certificates")
			}
		})
	}
}
