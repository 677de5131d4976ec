package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/config"
)

// writeCertificate puts a certificate for 127.0.0.1 and its key into dir.
func writeCertificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestProxy_speaksTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, "first")
	s := &site{}
	s.addAgent(t, 1, func(cfg *config.Runtime) {
		cfg.Proxy.HTTPS = netip.MustParseAddrPort("127.0.0.1:0")
		cfg.Proxy.CertFile, cfg.Proxy.KeyFile = cert, key
	})
	s.addShop(t, "shop1", s.agents[0])
	s.ready(t)
	get := func() (*http.Response, http.Header) {
		t.Helper()
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
		q, err := http.NewRequest("GET", "https://"+s.agents[0].doors.proxyPorts[1].Addr().String()+"/headers", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var seen http.Header
		if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil {
			t.Fatal(err)
		}
		return resp, seen
	}
	resp, seen := get()
	if c := resp.Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("cookies %v", c)
	}
	if got := seen.Get("X-Forwarded-Proto"); got != "https" {
		t.Errorf("the shop is told of %q", got)
	}
	if _, set := s.ask(t, s.agents[0], "/", ""); len(set) != 1 || set[0].Secure {
		t.Errorf("cookies without TLS: %v", set)
	}
	writeCertificate(t, dir, "second")
	s.await(t, "the new certificate", func() bool {
		resp, _ := get()
		return resp.TLS.PeerCertificates[0].Subject.CommonName == "second"
	})
}

func TestCertificate_servesTheOldOneWhileTheNewIsBad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, "first")
	c := &certificate{log: hclog.NewNullLogger(), files: func() (string, string) { return cert, key }}
	first, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func() error{
		func() error { return os.WriteFile(cert, []byte("half a cert"), 0o600) },
		func() error { return os.Remove(key) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		c.checked = time.Time{}
		if now, err := c.get(nil); now != first || err != nil {
			t.Errorf("got another certificate, or %v", err)
		}
	}
	writeCertificate(t, dir, "second")
	c.checked = time.Time{}
	if now, err := c.get(nil); now == first || err != nil {
		t.Errorf("the new one is not served: %v", err)
	}
	missing := &certificate{log: hclog.NewNullLogger(), files: func() (string, string) { return cert, filepath.Join(dir, "none") }}
	if _, err := missing.get(nil); err == nil {
		t.Error("a certificate without a key")
	}
}
