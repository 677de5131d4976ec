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

// checkInstances checks how instances are believed that speak TLS.
func (f *ProxyFile) checkInstances(c *checker) {
	if file := *f.InstanceCAFile; file != "" {
		if _, err := InstanceRoots(file); err != nil {
			c.fail("proxy.instance_ca_file", file, err.Error())
		}
	}
	name := *f.InstanceServerName
	if name != "" && (strings.Count(name, "*") > 1 || !hostName(strings.Replace(name, "*", "service", 1))) {
		c.fail("proxy.instance_server_name", name, `must be a host name, in which one "*" may stand for the service's name, as in "*.internal"`)
	}
}

var errNoCertificate = errors.New("must name a file with certificates in PEM form")

// InstanceRoots reads the file that proxy.instance_ca_file names.
func InstanceRoots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errNoCertificate
	}
	return roots, nil
}
