package acme

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rondel-project/rondel/agent/internal/wholefile"
)

// bundle is a certificate, its chain and its key.
type bundle struct {
	text []byte // all in PEM, as it is on disk
	cert *tls.Certificate
}

// due is when it is to be renewed: when a third of its life is left.
func (b *bundle) due() time.Time { return b.left(3) }

// overdue is when somebody else than whose turn it is renews it.
func (b *bundle) overdue() time.Time { return b.left(6) }

func (b *bundle) left(share time.Duration) time.Time {
	life := b.cert.Leaf.NotAfter.Sub(b.cert.Leaf.NotBefore)
	return b.cert.Leaf.NotAfter.Add(-life / share)
}

func parseBundle(text []byte, host string) (*bundle, error) {
	cert, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, err
	}
	if err := cert.Leaf.VerifyHostname(host); err != nil {
		return nil, err
	}
	return &bundle{text, &cert}, nil
}

func makeBundle(chain [][]byte, key *ecdsa.PrivateKey, host string) (*bundle, error) {
	private, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, der := range chain {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	b.Write(private)
	return parseBundle(b.Bytes(), host)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

const accountFile = "account.key"

// open reads the folder and returns the account's key, which is made if there
// is none. Each authority has a folder of its own: a key is an account with one.
func (m *Manager) open() (crypto.Signer, error) {
	if m.opt.Dir == "" {
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	sum := sha256.Sum256([]byte(m.opt.Directory))
	m.dir = filepath.Join(m.opt.Dir, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of certificates: %w", err)
	}
	for _, h := range m.opt.Hosts {
		text, err := os.ReadFile(m.file(h))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the certificate of %s: %w", h, err)
		}
		b, err := parseBundle(text, h)
		if err != nil {
			m.log.Warn("certificate on disk is of no use, another one is ordered", "file", m.file(h), "error", err)
			continue
		}
		m.bundles[h] = b
	}
	return m.account()
}

func (m *Manager) account() (crypto.Signer, error) {
	file := filepath.Join(m.dir, accountFile)
	text, err := os.ReadFile(file)
	if err == nil {
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("%s is damaged: it should hold a key; restore it, or move it away to get a new account", file)
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		signer, ok := key.(crypto.Signer)
		if err != nil || !ok {
			return nil, fmt.Errorf("%s is damaged (%v): restore it, or move it away to get a new account", file, err)
		}
		return signer, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the account's key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if text, err = encodeKey(key); err != nil {
		return nil, err
	}
	if err := wholefile.Write(file, text); err != nil {
		return nil, fmt.Errorf("write the account's key: %w", err)
	}
	return key, nil
}

func (m *Manager) file(host string) string { return filepath.Join(m.dir, host+".pem") }

func (m *Manager) save(host string, text []byte) error {
	if m.dir == "" {
		return nil
	}
	if err := wholefile.Write(m.file(host), text); err != nil {
		return fmt.Errorf("write the certificate of %s: %w", host, err)
	}
	return nil
}
