package agent

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// certificateAge is how long a certificate is served before its files are
// looked at again: a renewed one needs no reload.
const certificateAge = time.Second

// certificate is the proxy's, as its files have it.
type certificate struct {
	log   hclog.Logger
	files func() (cert, key string)

	mu      sync.Mutex // guards the rest
	loaded  *tls.Certificate
	from    string // what the files looked like
	checked time.Time
	said    string // the last complaint
}

// get implements the GetCertificate of tls.Config. While the files cannot be
// used, what they held before is served.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.loaded == nil || now.Sub(c.checked) >= certificateAge {
		c.checked = now
		if err := c.loadLocked(); err != nil {
			if c.loaded == nil {
				return nil, err
			}
			if why := err.Error(); why != c.said {
				c.said = why
				c.log.Error("certificate cannot be renewed, the one before is served", "error", err)
			}
		}
	}
	return c.loaded, nil
}

func (c *certificate) loadLocked() error {
	cert, key := c.files()
	from := ""
	for _, name := range []string{cert, key} {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("read the proxy's certificate: %w", err)
		}
		from += fmt.Sprintf("%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	if from == c.from {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	c.from = from // a bad one is not read again and again
	if err != nil {
		return fmt.Errorf("read the proxy's certificate %s with the key %s: %w", cert, key, err)
	}
	c.loaded = &pair
	return nil
}

// tlsConfig is how the proxy speaks TLS.
func (c *certificate) tlsConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: c.get}
}
