package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestProxy_rules(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``: "",
		"proxy_protocol = \"required\"\nproxy_protocol_from = [\"10.0.0.7\"]": "",
		"proxy_protocol = \"listed\"\nproxy_protocol_from = [\"::/0\"]":       "",
		`proxy_protocol = "optional"`:                                         `:2: proxy.proxy_protocol = "optional": must be "off", "listed" or "required"`,
		`proxy_protocol = "required"`:                                         `:2: proxy.proxy_protocol = "required": needs proxy_protocol_from`,
		"\nproxy_protocol_from = [\"10.0.0.7\"]":                              `:3: proxy.proxy_protocol_from = "": has no effect while`,
		"proxy_protocol_from = [\"balancer\"]":                                `:2: proxy.proxy_protocol_from = "balancer": must be an address`,
		"proxy_protocol_from = [\"10.0.0.0/33\"]":                             `:2: proxy.proxy_protocol_from = "10.0.0.0/33": must be an address`,
		"proxy_protocol = true":                                               `:2: proxy.proxy_protocol = "true": must be`,
		"h2c = true\nmax_streams = 1":                                         "",
		"http = \"\"\nh2c = true":                                             `:3: proxy.h2c = "true": has no effect without proxy.http`,
		"max_streams = 0":                                                     `:2: proxy.max_streams = 0: must be between 1 and 10000`,
		"instance_ca_file = \"testdata/instances.pem\"\ninstance_server_name = \"*.internal\"": "",
		"instance_ca_file = \"testdata/full.hcl\"":                                             `:2: proxy.instance_ca_file = "testdata/full.hcl": must name a file with certificates`,
		"instance_ca_file = \"testdata/none.pem\"":                                             `:2: proxy.instance_ca_file = "testdata/none.pem": open testdata/none.pem`,
		"instance_server_name = \"*.*.internal\"":                                              `:2: proxy.instance_server_name = "*.*.internal": must be a host name`,
		"instance_server_name = \"a b\"":                                                       `:2: proxy.instance_server_name = "a b": must be a host name`,
	} {
		path := write(t, t.TempDir(), "a.hcl", "proxy {\n"+body+"\n}")
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// TestProxy_certificateRules runs with files: a good pair, and a key of another
// certificate.
func TestProxy_certificateRules(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"https = \":8443\"": `:2: proxy.https = ":8443": needs a certificate: set cert_file and key_file, add a certificate block, or let acme obtain one`,
		"https = \":8443\"\ncert_file = \"CERT\"\nkey_file = \"KEY\"":                                                             "",
		"https = \":8443\"\ncertificate {\ncert_file = \"CERT\"\nkey_file = \"KEY\"\n}":                                           "",
		"https = \":8443\"\ncert_file = \"CERT\"":                                                                                 `proxy.key_file = "": must name the PEM key`,
		"https = \":8443\"\nkey_file = \"KEY\"":                                                                                   `proxy.cert_file = "": must name a PEM certificate`,
		"https = \":8443\"\ncert_file = \"CERT\"\nkey_file = \"OTHER\"":                                                           `:3: proxy.cert_file = "CERT": cannot be used with the key_file beside it: tls: private key does not match`,
		"https = \":8443\"\ncertificate {\ncert_file = \"CERT\"\n}":                                                               `:3: proxy.certificate[1].key_file = "": must name the PEM key`,
		"https = \":8443\"\ncertificate {\ncert_file = \"NONE\"\nkey_file = \"KEY\"\n}":                                           `:4: proxy.certificate[1].cert_file = "NONE": cannot be used`,
		"certificate {\ncert_file = \"NONE\"\nkey_file = \"KEY\"\n}":                                                              "", // nothing uses it
		"certificate {\nfile = \"NONE\"\n}":                                                                                       `:3: proxy.certificate[1].file: Unsupported argument`,
		"https = \":8443\"\ncert_file = \"CERT\"\nkey_file = \"KEY\"\ntls_min_version = \"1.1\"":                                  `:5: proxy.tls_min_version = "1.1": must be "1.2" or "1.3"`,
		acme(`hosts = ["Shop.example.com", "blog.example.com"]`, `agree = true`, `email = "ops@example.com"`, `ca_file = "CERT"`): "",
		acme(`hosts = ["shop.example.com"]`):                                                                                      `proxy.acme.agree = false: must be true: read the terms`,
		acme(`hosts = ["*.example.com"]`, `agree = true`):                                                                         `:4: proxy.acme.hosts = "*.example.com": must be a name without *`,
		acme(`hosts = ["192.0.2.1"]`, `agree = true`):                                                                             `:4: proxy.acme.hosts = "192.0.2.1": must be a host name`,
		acme(`hosts = ["a.example.com", "A.example.com"]`, `agree = true`):                                                        `:4: proxy.acme.hosts = "A.example.com": is there twice`,
		acme(`hosts = ["a.example.com"]`, `agree = true`, `directory = "http://ca.example.com"`):                                  `:6: proxy.acme.directory = "http://ca.example.com": must be the https URL`,
		acme(`hosts = ["a.example.com"]`, `agree = true`, `ca_file = "NONE"`):                                                     `:6: proxy.acme.ca_file = "NONE": cannot be read`,
		acme(`hosts = ["a.example.com"]`, `agree = true`, `ca_file = "KEY"`):                                                      `:6: proxy.acme.ca_file = "KEY": has no certificate in PEM`,
		acme(`hosts = ["a.example.com"]`, `agree = true`, `email = "ops"`):                                                        `:6: proxy.acme.email = "ops": must be an address for mail`,
		"acme {\nhosts = [\"a.example.com\"]\nagree = true\n}":                                                                    `:3: proxy.acme.hosts = "a.example.com": needs proxy.https`,
		"redirect_https = true": `:2: proxy.redirect_https = true: needs proxy.https`,
		"https = \":8443\"\ncert_file = \"CERT\"\nkey_file = \"KEY\"\nredirect_https = true": "",
	} {
		dir := t.TempDir()
		cert, key := testPair(t)
		_, other := testPair(t)
		names := strings.NewReplacer("CERT", write(t, dir, "cert.pem", cert), "KEY", write(t, dir, "key.pem", key),
			"OTHER", write(t, dir, "other.pem", other), "NONE", dir+"/none.pem")
		path := write(t, dir, "a.hcl", "proxy {\n"+names.Replace(body)+"\n}")
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		want = names.Replace(want)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// acme is a block of that name in a section with TLS.
func acme(lines ...string) string {
	return "https = \":8443\"\nacme {\n" + strings.Join(lines, "\n") + "\n}"
}

// testPair makes a certificate and its key.
func testPair(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}
