package acme

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"

	"golang.org/x/crypto/acme"
)

// obtain orders a certificate. After a failure the other kind of proof is
// offered, where there is one.
func (m *Manager) obtain(ctx context.Context, h *host) (*bundle, error) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	if err := m.register(ctx); err != nil {
		return nil, err
	}
	order, err := m.client.AuthorizeOrder(ctx, acme.DomainIDs(h.name))
	if err != nil {
		return nil, fmt.Errorf("order a certificate: %w", err)
	}
	for _, url := range order.AuthzURLs {
		if err := m.authorize(ctx, url, h); err != nil {
			return nil, err
		}
	}
	uri := order.URI // no later answer has to repeat it
	if order, err = m.client.WaitOrder(ctx, uri); err != nil {
		return nil, fmt.Errorf("wait for the order: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{h.name}}, key)
	if err != nil {
		return nil, err
	}
	chain, _, err := m.client.CreateOrderCert(ctx, order.FinalizeURL, csr, true)
	if err != nil {
		chain, err = m.fetch(ctx, uri, err)
	}
	if err != nil {
		return nil, fmt.Errorf("get the certificate: %w", err)
	}
	return makeBundle(chain, key, h.name)
}

// fetch gets the certificate of an order that the client lost sight of: it
// looks for the order's address in the answer to its request for a certificate,
// where not every authority repeats it while the certificate is being made. An
// order that was not taken is as it was, and the first error counts.
func (m *Manager) fetch(ctx context.Context, uri string, first error) ([][]byte, error) {
	order, err := m.client.WaitOrder(ctx, uri)
	if err != nil || order.Status != acme.StatusValid || order.CertURL == "" {
		return nil, first
	}
	return m.client.FetchCert(ctx, order.CertURL, true)
}

// register makes the account known to the authority, once.
func (m *Manager) register(ctx context.Context) error {
	if m.registered {
		return nil
	}
	account := &acme.Account{}
	if m.opt.Email != "" {
		account.Contact = []string{"mailto:" + m.opt.Email}
	}
	if _, err := m.client.Register(ctx, account, acme.AcceptTOS); err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return fmt.Errorf("register with the authority: %w", err)
	}
	m.registered = true
	return nil
}

// authorize proves to the authority that the host is ours.
func (m *Manager) authorize(ctx context.Context, url string, h *host) error {
	z, err := m.client.GetAuthorization(ctx, url)
	if err != nil {
		return fmt.Errorf("ask what is to be proved: %w", err)
	}
	if z.Status == acme.StatusValid {
		return nil // proved a while ago
	}
	challenge := m.pick(z.Challenges, h.failures)
	if challenge == nil {
		return errors.New("the authority takes no kind of proof that the open ports can give")
	}
	forget, err := m.prove(ctx, challenge, h.name)
	if err != nil {
		return err
	}
	defer forget()
	if _, err := m.client.Accept(ctx, challenge); err != nil {
		return fmt.Errorf("offer proof by %s: %w", challenge.Type, err)
	}
	if _, err := m.client.WaitAuthorization(ctx, z.URI); err != nil {
		return fmt.Errorf("proof by %s: %w", challenge.Type, err)
	}
	return nil
}

func (m *Manager) pick(offered []*acme.Challenge, turn int) *acme.Challenge {
	var able []*acme.Challenge
	for _, kind := range []struct {
		name Kind
		able bool
	}{{HTTP01, m.opt.HTTP}, {TLSALPN01, m.opt.TLS}} {
		for _, c := range offered {
			if kind.able && c.Type == string(kind.name) {
				able = append(able, c)
			}
		}
	}
	if len(able) == 0 {
		return nil
	}
	return able[turn%len(able)]
}
