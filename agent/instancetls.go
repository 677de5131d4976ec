package agent

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/proxy"
)

// instanceSessions is how many TLS sessions with instances are remembered, to
// shake hands more cheaply.
const instanceSessions = 256

// instanceTLS is how the proxy speaks TLS to instances. Where the file of the
// authorities has gone since the configuration was checked, nobody is believed.
func instanceTLS(cfg config.Proxy) proxy.InstanceTLS {
	t := proxy.InstanceTLS{
		Name: cfg.InstanceServerName, SkipVerify: cfg.InstanceSkipVerify,
		Sessions: tls.NewLRUClientSessionCache(instanceSessions),
	}
	if cfg.InstanceCAFile != "" {
		var err error
		if t.Roots, err = config.InstanceRoots(cfg.InstanceCAFile); err != nil {
			t.Roots = x509.NewCertPool()
		}
	}
	return t
}
