package certs

import (
	"crypto/tls"
	"errors"
	"strings"
)

// index finds a certificate by what a client asks for. It is never changed.
type index struct {
	byName map[string][]*entry // "shop.example.com" and "*.example.com"
	all    []*entry            // the first is shown to who asks for nothing we have
}

var errNone = errors.New("there is no certificate yet")

func newIndex(all []*entry) *index {
	x := &index{byName: map[string][]*entry{}, all: all}
	for _, e := range all {
		for _, name := range e.names {
			x.byName[name] = append(x.byName[name], e)
		}
	}
	return x
}

// find returns the certificate for a client: one of the very name, else one for
// all names beside it, else the first there is. Among several for one name the
// first counts that the client can use.
func (x *index) find(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(x.all) == 0 {
		return nil, errNone
	}
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	found := x.byName[name]
	if len(found) == 0 {
		if _, above, ok := strings.Cut(name, "."); ok {
			found = x.byName["*."+above]
		}
	}
	if len(found) == 0 {
		found = x.all[:1]
	}
	for _, e := range found[:len(found)-1] {
		if hello.SupportsCertificate(e.cert) == nil {
			return e.cert, nil
		}
	}
	return found[len(found)-1].cert, nil
}
