package acmetest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

// Authority is one that runs.
type Authority struct {
	Directory string         // its URL
	Roots     *x509.CertPool // vouch for the directory's own certificate
	RootsFile string         // the same in a file
	HTTP, TLS *Relay         // where it asks for proof
}

// Prepare is called by TestMain, before tests run: Pebble would wait between its
// steps otherwise.
func Prepare() { os.Setenv("PEBBLE_VA_NOSLEEP", "1") }

// Options leave Pebble's own goroutines out of account.
func Options() []goleak.Option {
	return []goleak.Option{goleak.IgnoreAnyFunction("github.com/letsencrypt/pebble/v2/va.VAImpl.processTasks")}
}

// Start runs an authority whose certificates live for so long.
func Start(t *testing.T, life time.Duration) *Authority {
	t.Helper()
	a := &Authority{HTTP: newRelay(t), TLS: newRelay(t)}
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: uint64(life / time.Second)}})
	validator := va.New(quiet, a.HTTP.port(), a.TLS.port(), true, resolver(t), store)
	front := wfe.New(quiet, store, validator, issuer, []string{"authority.test"}, true, false, 1, 1)
	srv := httptest.NewTLSServer(front.Handler())
	t.Cleanup(srv.Close)
	a.Directory = srv.URL + wfe.DirectoryPath
	a.Roots = x509.NewCertPool()
	a.Roots.AddCert(srv.Certificate())
	a.RootsFile = filepath.Join(t.TempDir(), "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(a.RootsFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// resolver answers that each name is 127.0.0.1.
func resolver(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	srv := &dns.Server{Listener: ln, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET},
				A:   net.IPv4(127, 0, 0, 1),
			}}
		}
		w.WriteMsg(m) // who asked may be gone
	})}
	done := make(chan struct{})
	go func() { defer close(done); srv.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { srv.Shutdown(); <-done })
	return ln.Addr().String()
}

// Relay is a port that the authority connects to. Where that leads is told
// later, and can change.
type Relay struct {
	ln    net.Listener
	wg    sync.WaitGroup
	known chan struct{} // closed once To was called, or all is over
	once  sync.Once

	mu    sync.Mutex // guards the rest
	to    []string
	came  int
	conns map[net.Conn]bool
}

func newRelay(t *testing.T) *Relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{ln: ln, known: make(chan struct{}), conns: map[net.Conn]bool{}}
	r.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			r.wg.Go(func() { r.pass(nc) })
		}
	})
	t.Cleanup(r.close)
	return r
}

// To says where connections go from now on, in turn. Those that come before
// wait.
func (r *Relay) To(addrs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = addrs
	r.once.Do(func() { close(r.known) })
}

// Came returns how many connections there were.
func (r *Relay) Came() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came
}

func (r *Relay) port() int { return r.ln.Addr().(*net.TCPAddr).Port }

func (r *Relay) pass(in net.Conn) {
	defer in.Close()
	<-r.known
	r.mu.Lock()
	to := ""
	if len(r.to) > 0 {
		to = r.to[r.came%len(r.to)]
	}
	r.came++
	r.mu.Unlock()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	r.mu.Lock()
	r.conns[in], r.conns[out] = true, true
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { io.Copy(out, in); out.(*net.TCPConn).CloseWrite() })
	both.Go(func() { io.Copy(in, out); in.(*net.TCPConn).CloseWrite() })
	both.Wait()
}

func (r *Relay) close() {
	r.ln.Close()
	r.once.Do(func() { close(r.known) })
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}
