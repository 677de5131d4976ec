package config

import (
	"crypto/x509"
	"errors"
	"os"
	"strings"
)

// checkHTTP2 checks what is said of HTTP/2 with clients.
func (f *ProxyFile) checkHTTP2(c *checker) {
	c.between("proxy.max_streams", *f.MaxStreams, 1, 10_000)
	if *f.H2C && *f.HTTP == "" {
		c.fail("proxy.h2c", "true", "has no effect without proxy.http; with proxy.https clients agree on HTTP/2 by themselves")
	}
}

// Authorities are those that instances with TLS are believed by: a file, and what
// it held when the configuration was read. So a reload takes it over as it takes
// over options, and sees when nothing else has changed.
type Authorities struct {
	File string // empty: the system's
	pem  string
}

// String returns the option's value.
func (a Authorities) String() string { return a.File }

// Pool returns the certificates, nil for the system's.
func (a Authorities) Pool() *x509.CertPool {
	if a.File == "" {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(a.pem)) // there are some, as authorities has seen
	return roots
}

func (f *ProxyFile) authorities(c *checker) Authorities {
	a := Authorities{File: *f.InstanceCAFile}
	if a.File == "" {
		return a
	}
	pem, err := os.ReadFile(a.File)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		err = errNoCertificate
	}
	if err != nil {
		c.fail("proxy.instance_ca_file", a.File, err.Error())
	}
	a.pem = string(pem)
	return a
}

// checkServerName checks what instances with TLS have to show.
func (f *ProxyFile) checkServerName(c *checker) {
	name := *f.InstanceServerName
	if name != "" && (strings.Count(name, "*") > 1 || !hostName(strings.Replace(name, "*", "service", 1))) {
		c.fail("proxy.instance_server_name", name, `must be a host name, in which one "*" may stand for the service's name, as in "*.internal"`)
	}
}

var errNoCertificate = errors.New("must name a file with certificates in PEM form")
