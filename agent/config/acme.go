package config

import (
	"crypto/x509"
	"net/url"
	"os"
	"slices"
	"strings"
)

// ACMEFile is the block "acme" of the section "proxy".
type ACMEFile struct {
	Hosts     *[]string `opt:"hosts"`
	Email     *string   `opt:"email"`
	Directory *string   `opt:"directory"`
	CAFile    *string   `opt:"ca_file"`
	Agree     *bool     `opt:"agree"`
}

// ACME is which certificates are obtained, and from whom. Without hosts none
// are.
type ACME struct {
	Hosts     []string `opt:"proxy.acme.hosts"` // lower case
	Email     string   `opt:"proxy.acme.email"`
	Directory string   `opt:"proxy.acme.directory"`
	CAFile    string   `opt:"proxy.acme.ca_file"`
	Agree     bool     `opt:"proxy.acme.agree"`
}

func defaultACME() *ACMEFile {
	return &ACMEFile{
		Hosts: ptr([]string{}), Email: ptr(""), Directory: ptr("https://acme-v02.api.letsencrypt.org/directory"), CAFile: ptr(""), Agree: ptr(false),
	}
}

func (f *ACMEFile) runtime(c *checker, https bool) ACME {
	out := ACME{Email: *f.Email, Directory: *f.Directory, CAFile: *f.CAFile, Agree: *f.Agree}
	if len(*f.Hosts) == 0 {
		return out
	}
	for _, host := range *f.Hosts {
		name := strings.ToLower(host)
		switch {
		case strings.HasPrefix(host, "*."):
			c.fail("proxy.acme.hosts", host, "must be a name without *: for many names at once an authority wants proof by DNS; use a certificate block")
		case isAddr(host), !hostName(host):
			c.fail("proxy.acme.hosts", host, `must be a host name without scheme or port, as in "shop.example.com"`)
		case slices.Contains(out.Hosts, name):
			c.fail("proxy.acme.hosts", host, "is there twice")
		}
		out.Hosts = append(out.Hosts, name)
	}
	if !https {
		c.fail("proxy.acme.hosts", strings.Join(*f.Hosts, ","), "needs proxy.https, where the certificates are shown")
	}
	if !*f.Agree {
		c.fail("proxy.acme.agree", false, "must be true: read the terms of the authority at "+*f.Directory+", then agree to them")
	}
	if u, err := url.Parse(*f.Directory); err != nil || u.Scheme != "https" || u.Host == "" {
		c.fail("proxy.acme.directory", *f.Directory, "must be the https URL of an ACME directory")
	}
	if *f.Email != "" && !strings.Contains(strings.Trim(*f.Email, "@"), "@") {
		c.fail("proxy.acme.email", *f.Email, "must be an address for mail")
	}
	if *f.CAFile != "" {
		text, err := os.ReadFile(*f.CAFile)
		if err != nil {
			c.fail("proxy.acme.ca_file", *f.CAFile, reason(err))
		} else if !x509.NewCertPool().AppendCertsFromPEM(text) {
			c.fail("proxy.acme.ca_file", *f.CAFile, "has no certificate in PEM")
		}
	}
	return out
}
