package config

import "crypto/tls"

// CertificateFile is a block "certificate" of the section "proxy".
type CertificateFile struct {
	CertFile *string `opt:"cert_file"`
	KeyFile  *string `opt:"key_file"`
}

// Certificate names the files of one certificate, with its chain, and its key.
type Certificate struct {
	CertFile string
	KeyFile  string
}

func defaultCertificate() *CertificateFile {
	return &CertificateFile{CertFile: ptr(""), KeyFile: ptr("")}
}

// TLSVersion is the least version of TLS that clients have to speak.
type TLSVersion string

// The versions that are still secure.
const (
	TLS12 TLSVersion = "1.2"
	TLS13 TLSVersion = "1.3"
)

// Pairs returns all certificates that have files, the default first.
func (p Proxy) Pairs() []Certificate {
	var all []Certificate
	if p.CertFile != "" {
		all = append(all, Certificate{p.CertFile, p.KeyFile})
	}
	return append(all, p.Certificates...)
}

func (f *ProxyFile) certificates(c *checker) []Certificate {
	c.oneOf("proxy.tls_min_version", *f.TLSMinVersion, string(TLS12), string(TLS13))
	on := *f.HTTPS != ""
	if on && *f.CertFile == "" && *f.KeyFile == "" && len(f.Certificates) == 0 && len(*f.ACME.Hosts) == 0 {
		c.fail("proxy.https", *f.HTTPS, "needs a certificate: set cert_file and key_file, add a certificate block, or let acme obtain one")
	}
	if *f.CertFile != "" || *f.KeyFile != "" {
		c.pair("proxy", *f.CertFile, *f.KeyFile, on)
	}
	var out []Certificate
	for i, block := range f.Certificates {
		pair := merge(defaultCertificate(), block)
		c.pair(nth("proxy.certificate", i), *pair.CertFile, *pair.KeyFile, on)
		out = append(out, Certificate{*pair.CertFile, *pair.KeyFile})
	}
	return out
}

// pair checks a certificate and its key. Where nothing uses them, their files
// need not be there.
func (c *checker) pair(at, cert, key string, used bool) {
	switch {
	case cert == "":
		c.fail(at+".cert_file", "", "must name a PEM certificate, with its chain, for the key_file beside it")
	case key == "":
		c.fail(at+".key_file", "", "must name the PEM key of the cert_file beside it")
	case used:
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			c.fail(at+".cert_file", cert, "cannot be used with the key_file beside it: "+err.Error())
		}
	}
}
