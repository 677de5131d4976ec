package agent

import (
	"crypto/tls"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/proxy"
)

// instanceSessions is how many TLS sessions with instances are remembered, to
// shake hands more cheaply.
const instanceSessions = 256

// instanceTLS is how the proxy speaks TLS to instances.
func instanceTLS(cfg config.Proxy) proxy.InstanceTLS {
	return proxy.InstanceTLS{
		Roots: cfg.InstanceCA.Pool(), Name: cfg.InstanceServerName, SkipVerify: cfg.InstanceSkipVerify,
		Sessions: tls.NewLRUClientSessionCache(instanceSessions),
	}
}
