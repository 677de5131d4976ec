package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
)

// Kind is how something is proved to the authority.
type Kind string

// HTTP01 is an answer to a request at PathPrefix and a token; TLSALPN01 is a
// certificate, for one handshake, that holds a hash.
const (
	HTTP01    Kind = "http-01"
	TLSALPN01 Kind = "tls-alpn-01"
)

// PathPrefix is where the authority asks by HTTP for a token.
const PathPrefix = "/.well-known/acme-challenge/"

// Protocol is what the authority offers by ALPN when it asks by TLS.
const Protocol = acme.ALPNProto

const (
	maxToken  = 128      // bytes of what is taken for a token
	maxAnswer = 16 << 10 // and of what is answered
	maxTold   = 1024     // answers that other agents have told
)

// atOnce bounds how many questions of strangers are passed on to other agents.
const atOnce = 8

// proofs are the answers to what the authority may ask now.
type proofs struct {
	mu    sync.Mutex // guards known and told
	known map[question][]byte
	told  map[question]told // by other agents that have an order under way

	slot chan struct{} // taken while another agent is asked
}

type question struct {
	kind Kind
	name string // the token, or the host
}

// told is what another agent said is to be answered.
type told struct {
	answer []byte
	until  time.Time
}

// prove makes an answer known until forget is called, and tells the others, which
// it WAITS for: the authority may ask any of them.
func (m *Manager) prove(ctx context.Context, c *acme.Challenge, host string) (forget func(), err error) {
	q := question{Kind(c.Type), host}
	var answer []byte
	switch q.kind {
	case HTTP01:
		q.name = c.Token
		text, err := m.client.HTTP01ChallengeResponse(c.Token)
		if err != nil {
			return nil, err
		}
		answer = []byte(text)
	case TLSALPN01:
		cert, err := m.client.TLSALPN01ChallengeCert(c.Token, host)
		if err != nil {
			return nil, err
		}
		if answer, err = encodeProof(&cert); err != nil {
			return nil, err
		}
	}
	p := &m.proofs
	p.mu.Lock()
	p.known[q] = answer
	p.mu.Unlock()
	if m.opt.Others != nil {
		ctx, cancel := context.WithTimeout(ctx, tellTimeout)
		defer cancel()
		m.opt.Others.Tell(ctx, q.kind, q.name, answer)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.known, q)
	}, nil
}

// Proof returns what this agent answers to the authority, for another agent
// that was asked.
func (m *Manager) Proof(kind Kind, name string) ([]byte, bool) {
	p := &m.proofs
	p.mu.Lock()
	defer p.mu.Unlock()
	answer, ok := p.known[question{kind, name}]
	return answer, ok
}

// Told keeps what another agent says is to be answered while its order may last.
// It reports whether there was room.
func (m *Manager) Told(kind Kind, name string, answer []byte) bool {
	if len(answer) == 0 || len(answer) > maxAnswer || !askable(name) {
		return false
	}
	p, now := &m.proofs, time.Now()
	q := question{kind, name}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.told, func(_ question, t told) bool { return now.After(t.until) })
	if _, there := p.told[q]; !there && len(p.told) >= maxTold {
		return false
	}
	p.told[q] = told{bytes.Clone(answer), now.Add(orderTimeout)}
	return true
}

// here returns what is to be answered as far as this agent knows.
func (m *Manager) here(kind Kind, name string) ([]byte, bool) {
	if answer, ok := m.Proof(kind, name); ok {
		return answer, ok
	}
	p := &m.proofs
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.told[question{kind, name}]
	if !ok || time.Now().After(t.until) {
		return nil, false
	}
	return t.answer, true
}

// Answer returns what is to be answered to a request at PathPrefix and the
// token. It may WAIT, for other agents.
func (m *Manager) Answer(ctx context.Context, token string) (string, bool) {
	answer, ok := m.ask(ctx, HTTP01, token)
	return string(answer), ok
}

// Certificate returns what is to be shown to a client that offers Protocol. It
// may WAIT, for other agents.
func (m *Manager) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	if !m.Covers(name) {
		return nil, fmt.Errorf("no certificate for %q is being obtained", name)
	}
	text, ok := m.ask(hello.Context(), TLSALPN01, name)
	if !ok {
		return nil, fmt.Errorf("nothing is to be proved for %q now", name)
	}
	cert, err := tls.X509KeyPair(text, text)
	return &cert, err
}

// ask looks here, where an order's answers are before the authority asks. Other
// agents are asked for what one of them could not tell. Anybody may cause that,
// so only a few such questions are on their way at a time; what is known here is
// answered whatever else is asked.
func (m *Manager) ask(ctx context.Context, kind Kind, name string) ([]byte, bool) {
	if answer, ok := m.here(kind, name); ok || m.opt.Others == nil || !askable(name) {
		return answer, ok
	}
	p := &m.proofs
	select {
	case p.slot <- struct{}{}:
	default:
		return nil, false
	}
	defer func() { <-p.slot }()
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	return m.opt.Others.Proof(ctx, kind, name)
}

// askable reports whether the authority could ask for such a name.
func askable(name string) bool {
	return name != "" && len(name) <= maxToken && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	})
}

func encodeProof(cert *tls.Certificate) ([]byte, error) {
	if len(cert.Certificate) != 1 {
		return nil, errors.New("a proof is one certificate")
	}
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	return append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...), nil
}
