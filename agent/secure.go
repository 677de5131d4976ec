package agent

import (
	"crypto/tls"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/acme"
	"github.com/rondel-project/rondel/agent/certs"
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/telemetry"
)

// secure is how the proxy speaks TLS.
type secure struct {
	certificates *certs.Store
	authority    *acme.Manager              // nil: certificates come from files alone
	config       atomic.Pointer[tls.Config] // for handshakes that begin now
}

// newSecure reads the certificates.
func newSecure(cfg config.Proxy, log hclog.Logger) (*secure, error) {
	s := &secure{certificates: certs.New(log.Named("proxy"))}
	commit, err := s.prepare(cfg)
	if err != nil {
		return nil, err
	}
	commit()
	return s, nil
}

// prepare reads what another configuration names, and returns what puts that in
// force.
func (s *secure) prepare(cfg config.Proxy) (commit func(), err error) {
	var pairs []certs.Pair
	for _, p := range cfg.Pairs() {
		if !cfg.HTTPS.IsValid() {
			break // nobody will see them
		}
		pairs = append(pairs, certs.Pair{Cert: p.CertFile, Key: p.KeyFile})
	}
	shown, err := s.certificates.Prepare(pairs)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	next := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols(), GetCertificate: s.certificates.Get}
	if cfg.TLSMinVersion == config.TLS13 {
		next.MinVersion = tls.VersionTLS13
	}
	return func() {
		shown()
		s.config.Store(next)
	}, nil
}

// protocols is what clients may choose from by ALPN, the best first.
func protocols() []string { return []string{"h2", "http/1.1"} }

// tls returns what a listener speaks. It goes by the configuration in force at
// each handshake, and keeps the keys of session tickets across changes. An
// authority that wants proof gets that and nothing else.
func (s *secure) tls() *tls.Config {
	return &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if s.authority != nil && len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acme.Protocol {
			return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{acme.Protocol}, GetCertificate: s.authority.Certificate}, nil
		}
		return s.config.Load(), nil
	}}
}

// stats is what `rondel info` shows of the certificates.
func (s *secure) stats() map[string]string {
	out := map[string]string{}
	for _, c := range s.certificates.Status() {
		text := fmt.Sprintf("%s, expires %s", strings.Join(c.Names, " "), c.Expires.UTC().Format(time.RFC3339))
		if c.Problem != "" {
			text += "; its files cannot be used now: " + c.Problem
		}
		out[c.Source] = strings.TrimPrefix(text, ", ")
	}
	return out
}

// ends returns when each certificate ends.
func (s *secure) ends() []telemetry.Certificate {
	var out []telemetry.Certificate
	for _, c := range s.certificates.Status() {
		name := ""
		if len(c.Names) > 0 {
			name = c.Names[0]
		}
		out = append(out, telemetry.Certificate{Source: c.Source, Name: name, Expires: c.Expires})
	}
	return out
}
