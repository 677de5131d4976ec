package agent

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/acme"
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/wire"
)

// acmeFolder is where what was obtained from an authority is kept.
const acmeFolder = "acme"

// newAuthority returns what obtains certificates, nil where none are wanted.
func (a *Agent) newAuthority(cfg config.Runtime, s *secure, log hclog.Logger) (*acme.Manager, error) {
	c := cfg.Proxy.ACME
	if len(c.Hosts) == 0 {
		return nil, nil
	}
	opt := acme.Options{
		Hosts: c.Hosts, Directory: c.Directory, Email: c.Email, Dir: a.id.path(acmeFolder),
		HTTP: cfg.Proxy.HTTP.IsValid(), TLS: cfg.Proxy.HTTPS.IsValid(), Log: log.Named("proxy"),
		Changed: func(list []*tls.Certificate) { s.certificates.Brought("acme", list) },
	}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates that vouch for the authority: %w", err)
		}
		opt.Roots = x509.NewCertPool()
		opt.Roots.AppendCertsFromPEM(text)
	}
	others := &acmeOthers{self: a.id.id, transport: a.transport, roster: a.roster, joined: func() bool {
		return a.engine.View().Self.Num != 0
	}}
	if len(cfg.Join.Encrypt) > 0 {
		var err error
		if others.seal, err = newSeal(cfg.Join.Encrypt); err != nil {
			return nil, err
		}
	}
	opt.Others = others
	m, err := acme.New(opt)
	if err != nil {
		return nil, err
	}
	others.handle(m)
	return m, nil
}

// acmeOthers are the other agents, to one that obtains certificates. Without a
// secret that all share, no key of a certificate travels: then each agent
// orders for itself.
type acmeOthers struct {
	self      member.ID
	transport *wire.Transport
	roster    *roster
	joined    func() bool // whether the cluster's table names this agent
	seal      cipher.AEAD // nil: there is no secret
}

// newSeal returns what certificates' keys are sealed with between agents.
func newSeal(secret []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "rondel certificates between agents", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// proofQuestion asks for what is to be answered to the authority.
type proofQuestion struct {
	Kind acme.Kind
	Name string
}

// proofAnswer tells what is to be answered.
type proofAnswer struct {
	Kind   acme.Kind
	Name   string
	Answer []byte
}

func (o *acmeOthers) handle(m *acme.Manager) {
	o.transport.HandleCall(callProof, func(_ context.Context, _ wire.Hello, body []byte) ([]byte, error) {
		var q proofQuestion
		if err := json.Unmarshal(body, &q); err != nil {
			return nil, &wire.CodedError{Code: "malformed", Message: "not a question about a proof"}
		}
		answer, _ := m.Proof(q.Kind, q.Name)
		return answer, nil
	})
	o.transport.HandleCall(callTold, func(_ context.Context, _ wire.Hello, body []byte) ([]byte, error) {
		var t proofAnswer
		if err := json.Unmarshal(body, &t); err != nil {
			return nil, &wire.CodedError{Code: "malformed", Message: "not an answer to the authority"}
		}
		m.Told(t.Kind, t.Name, t.Answer)
		return nil, nil
	})
	o.transport.HandleCall(callBundle, func(_ context.Context, _ wire.Hello, body []byte) ([]byte, error) {
		text := m.Bundle(string(body))
		if text == nil || o.seal == nil {
			return nil, nil
		}
		nonce := make([]byte, o.seal.NonceSize())
		rand.Read(nonce)
		return o.seal.Seal(nonce, nonce, text, body), nil
	})
}

// Proof implements acme.Others.
func (o *acmeOthers) Proof(ctx context.Context, kind acme.Kind, name string) ([]byte, bool) {
	body, err := json.Marshal(proofQuestion{kind, name})
	if err != nil {
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for answer := range o.ask(ctx, callProof, body) {
		return answer, true
	}
	return nil, false
}

// Tell implements acme.Others. Who cannot be told has to ask.
func (o *acmeOthers) Tell(ctx context.Context, kind acme.Kind, name string, answer []byte) {
	body, err := json.Marshal(proofAnswer{kind, name, answer})
	if err != nil {
		return
	}
	for range o.ask(ctx, callTold, body) {
	}
}

// Bundles implements acme.Others.
func (o *acmeOthers) Bundles(ctx context.Context, host string) (out [][]byte) {
	if o.seal == nil {
		return nil
	}
	for sealed := range o.ask(ctx, callBundle, []byte(host)) {
		if text, err := o.open(sealed, host); err == nil {
			out = append(out, text)
		}
	}
	return out
}

func (o *acmeOthers) open(sealed []byte, host string) ([]byte, error) {
	n := o.seal.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("too short")
	}
	return o.seal.Open(nil, sealed[:n], sealed[n:], []byte(host))
}

// Turn implements acme.Others: the first of the agents with a proxy orders.
func (o *acmeOthers) Turn() bool {
	if !o.joined() {
		return false
	}
	if o.seal == nil {
		return true
	}
	for _, m := range o.there() {
		if m.ProxyPort != 0 && m.ID < o.self {
			return false
		}
	}
	return true
}

// there are the other agents that are alive.
func (o *acmeOthers) there() (out []gossip.Member) {
	for _, m := range o.roster.members() {
		if m.ID != o.self && m.Here() {
			out = append(out, m)
		}
	}
	return out
}

// ask asks all others at once, and yields the answers that say something as
// they come. It returns when all have answered, or ctx has ended.
func (o *acmeOthers) ask(ctx context.Context, method byte, body []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var asking sync.WaitGroup
		defer asking.Wait()
		defer cancel()
		list := o.there()
		answers := make(chan []byte, len(list))
		for _, m := range list {
			asking.Go(func() {
				answer, err := o.transport.Call(ctx, m.RPC().String(), method, body)
				if err != nil {
					answer = nil // it may come later, or be of an older version
				}
				answers <- answer
			})
		}
		for range list {
			if answer := <-answers; len(answer) > 0 && !yield(bytes.Clone(answer)) {
				return
			}
		}
	}
}
