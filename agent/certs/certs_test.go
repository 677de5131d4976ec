package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// issue puts a certificate for the names, and its key, into dir.
func issue(t *testing.T, dir string, life time.Duration, k crypto.Signer, names ...string) Pair {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	p := Pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	write(t, p.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, p.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return p
}

// write replaces a file as a careful tool does.
func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func key(t *testing.T) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func pairFor(t *testing.T, life time.Duration, names ...string) Pair {
	return issue(t, t.TempDir(), life, key(t), names...)
}

func newStore(t *testing.T, pairs ...Pair) (*Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	s := New(hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Info}))
	if err := setFiles(s, pairs...); err != nil {
		t.Fatal(err)
	}
	return s, &log
}

func setFiles(s *Store, pairs ...Pair) error {
	commit, err := s.Prepare(pairs)
	if err == nil {
		commit()
	}
	return err
}

// shown shakes hands and returns the first name of the certificate that the
// client got.
func shown(t *testing.T, s *Store, ask *tls.Config) string {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	done := make(chan error, 1)
	go func() {
		defer server.Close()
		done <- tls.Server(server, &tls.Config{GetCertificate: s.Get, MaxVersion: tls.VersionTLS12, SessionTicketsDisabled: true}).Handshake()
	}()
	ask.InsecureSkipVerify = true
	c := tls.Client(client, ask)
	err := c.Handshake()
	if serr := <-done; err != nil || serr != nil {
		t.Fatalf("%v, %v", err, serr)
	}
	return c.ConnectionState().PeerCertificates[0].DNSNames[0]
}

func TestStore_byName(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t,
		pairFor(t, time.Hour, "first.example.com"),
		pairFor(t, time.Hour, "*.example.com", "example.com"),
		pairFor(t, time.Hour, "Shop.Example.com"),
		pairFor(t, time.Hour, "other.example.org", "also.example.org"),
	)
	for name, want := range map[string]string{
		"":                   "first.example.com",
		"unknown.example.io": "first.example.com",
		"first.example.com":  "first.example.com",
		"shop.example.com":   "Shop.Example.com",
		"SHOP.example.COM":   "Shop.Example.com",
		"shop.example.com.":  "Shop.Example.com",
		"blog.example.com":   "*.example.com",
		"example.com":        "*.example.com",
		"a.blog.example.com": "first.example.com", // one label, no more
		"also.example.org":   "other.example.org",
		"example.org":        "first.example.com",
	} {
		if got := shown(t, s, &tls.Config{ServerName: name}); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// Of two certificates for one name each client gets the one that it can use.
func TestStore_twoKindsOfKey(t *testing.T) {
	t.Parallel()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newStore(t, pairFor(t, time.Hour, "shop.example.com"), issue(t, t.TempDir(), time.Hour, k, "shop.example.com"))
	for suite, want := range map[uint16]x509.PublicKeyAlgorithm{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: x509.ECDSA, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: x509.RSA,
	} {
		var got x509.PublicKeyAlgorithm
		shown(t, s, &tls.Config{ServerName: "shop.example.com", CipherSuites: []uint16{suite}, VerifyConnection: func(st tls.ConnectionState) error {
			got = st.PeerCertificates[0].PublicKeyAlgorithm
			return nil
		}})
		if got != want {
			t.Errorf("got a key of %s, want %s", got, want)
		}
	}
}

func TestStore_renewedFiles(t *testing.T) {
	t.Parallel()
	dir, k := t.TempDir(), key(t)
	s, log := newStore(t, pairFor(t, 30*24*time.Hour, "default"), issue(t, dir, 30*24*time.Hour, k, "old.example.com"))
	s.Look(time.Now())
	if log.Len() > 0 {
		t.Errorf("nothing happened, and the log says %q", log)
	}
	issue(t, dir, 30*24*time.Hour, k, "new.example.com")
	s.Look(time.Now())
	if got := shown(t, s, &tls.Config{ServerName: "new.example.com"}); got != "new.example.com" {
		t.Errorf("%s is shown", got)
	}
	if got := shown(t, s, &tls.Config{ServerName: "old.example.com"}); got != "default" {
		t.Errorf("%s is shown for a name that is gone", got)
	}
	if n := strings.Count(log.String(), "certificate renewed"); n != 1 || strings.Contains(log.String(), "ERROR") {
		t.Errorf("log %q", log)
	}
}

// While the files are of no use the old certificate is shown, and the log says
// so once; what is between the two files' replacement is no news.
func TestStore_brokenFiles(t *testing.T) {
	t.Parallel()
	far := 30 * 24 * time.Hour
	for name, spoil := range map[string]func(t *testing.T, p Pair){
		"half a certificate": func(t *testing.T, p Pair) { write(t, p.Cert, []byte("-----BEGIN CERT")) },
		"no key":             func(t *testing.T, p Pair) { os.Remove(p.Key) },
		"empty key":          func(t *testing.T, p Pair) { write(t, p.Key, nil) },
		"another's key": func(t *testing.T, p Pair) {
			other := pairFor(t, far, "other")
			b, err := os.ReadFile(other.Key)
			if err != nil {
				t.Fatal(err)
			}
			write(t, p.Key, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := issue(t, dir, far, key(t), "old.example.com")
			s, log := newStore(t, p)
			spoil(t, p)
			s.Look(time.Now())
			if log.Len() > 0 {
				t.Errorf("at the first look the log says %q", log)
			}
			for range 5 {
				s.Look(time.Now())
				if got := shown(t, s, &tls.Config{}); got != "old.example.com" {
					t.Errorf("%s is shown", got)
				}
			}
			if n := strings.Count(log.String(), "cannot be renewed"); n != 1 || !strings.Contains(log.String(), p.Cert) {
				t.Errorf("log %q", log)
			}
			if st := s.Status(); st[0].Problem == "" || st[0].Names[0] != "old.example.com" {
				t.Errorf("status %+v", st)
			}
			if err := setFiles(s, p); err == nil {
				t.Error("a reload takes them")
			} else if got := shown(t, s, &tls.Config{}); got != "old.example.com" {
				t.Errorf("%s is shown after a reload that failed", got)
			}
			issue(t, dir, far, key(t), "new.example.com")
			s.Look(time.Now())
			if got := shown(t, s, &tls.Config{}); got != "new.example.com" || s.Status()[0].Problem != "" {
				t.Errorf("%s is shown once all is well, status %+v", got, s.Status())
			}
		})
	}
}

func TestStore_expiry(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	s, log := newStore(t, pairFor(t, 20*day, "shop.example.com"))
	now := time.Now()
	count := func(d time.Duration, warnings, errors int) {
		t.Helper()
		log.Reset()
		for range 3 {
			s.Look(now.Add(d))
		}
		if w, e := strings.Count(log.String(), "[WARN]"), strings.Count(log.String(), "[ERROR]"); w != warnings || e != errors {
			t.Errorf("after %s: %d warnings, %d errors, want %d and %d: %s", d, w, e, warnings, errors, log)
		}
	}
	count(5*day, 0, 0)
	count(6*day+time.Hour, 1, 0)
	count(6*day+2*time.Hour, 0, 0)
	count(8*day, 1, 0)
	count(21*day, 0, 1)
	count(22*day+time.Minute, 0, 1)
	if got := shown(t, s, &tls.Config{}); got != "shop.example.com" {
		t.Errorf("%s is shown", got) // better than nothing
	}
}

func TestStore_brought(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	if _, err := s.Get(&tls.ClientHelloInfo{ServerName: "x"}); err == nil {
		t.Error("there is a certificate")
	}
	p := pairFor(t, time.Hour, "auto.example.com")
	c, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	s.Brought("acme", []*tls.Certificate{&c})
	if got := shown(t, s, &tls.Config{}); got != "auto.example.com" {
		t.Errorf("%s is shown", got)
	}
	if err := setFiles(s, pairFor(t, time.Hour, "file.example.com")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "file.example.com", "auto.example.com": "auto.example.com"} {
		if got := shown(t, s, &tls.Config{ServerName: name}); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	if st := s.Status(); len(st) != 2 || st[1].Source != "acme auto.example.com" {
		t.Errorf("status %+v", st)
	}
}

// Handshakes and renewals at once, while Run looks after the files.
func TestStore_renewalsUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := newStore(t, issue(t, dir, time.Hour, key(t), "a.example.com"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for n := range 20 {
		issue(t, dir, time.Hour, key(t), []string{"a.example.com", "b.example.com"}[n%2])
		s.Look(time.Now())
		shown(t, s, &tls.Config{ServerName: "a.example.com"})
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
