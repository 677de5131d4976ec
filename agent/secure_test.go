package agent

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
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

// A reload takes other certificates over, all or none, and connections stay.
func TestProxy_reloadsCertificates(t *testing.T) {
	t.Parallel()
	one, two := t.TempDir(), t.TempDir()
	cert, key := writeCertificate(t, one, "one")
	s := &site{}
	s.addAgent(t, 1, func(cfg *config.Runtime) {
		cfg.Proxy.HTTPS = netip.MustParseAddrPort("127.0.0.1:0")
		cfg.Proxy.CertFile, cfg.Proxy.KeyFile = cert, key
	})
	s.addShop(t, "shop1", s.agents[0])
	s.ready(t)
	a := s.agents[0]
	addr := a.doors.proxyPorts[1].Addr().String()
	dial := func(most uint16) (*tls.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: most, ServerName: "two"}}
		nc, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(time.Minute))
		return nc.(*tls.Conn), nil
	}
	ask := func(nc *tls.Conn) int {
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp.StatusCode
	}
	old, err := dial(tls.VersionTLS12)
	if err != nil {
		t.Fatal(err)
	}
	ask(old)

	next := *a.cfg.Load()
	cert2, key2 := writeCertificate(t, two, "two")
	next.Proxy.Certificates = []config.Certificate{{CertFile: cert2, KeyFile: key}}
	if err := a.Reload(next); err == nil {
		t.Error("a certificate with another's key is taken over")
	}
	if nc, err := dial(0); err != nil || nc.ConnectionState().PeerCertificates[0].Subject.CommonName != "one" {
		t.Errorf("after a reload that failed: %v", err)
	}
	next.Proxy.Certificates = []config.Certificate{{CertFile: cert2, KeyFile: key2}}
	next.Proxy.TLSMinVersion = config.TLS13
	if err := a.Reload(next); err != nil {
		t.Fatal(err)
	}
	if nc, err := dial(0); err != nil || nc.ConnectionState().PeerCertificates[0].Subject.CommonName != "two" {
		t.Errorf("after a reload: %v", err)
	}
	if _, err := dial(tls.VersionTLS12); err == nil {
		t.Error("TLS 1.2 is still spoken")
	}
	if status := ask(old); status != 200 {
		t.Errorf("a connection from before: %d", status)
	}

	stats := backend{a}.Self().Stats["certificates"]
	if len(stats) != 2 || !strings.Contains(stats[cert2], "two, expires ") {
		t.Errorf("info shows %v", stats)
	}
	families, err := a.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		if f.GetName() == "rondel_proxy_certificate_expires_seconds" {
			found = len(f.Metric)
		}
	}
	if found != 2 {
		t.Errorf("%d figures of certificates", found)
	}
}
