package acmetest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/rondel-project/rondel/agent"
	"github.com/rondel-project/rondel/agent/acmetest"
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) {
	acmetest.Prepare()
	leaktest.Main(m, acmetest.Options()...)
}

// node is an agent and where its proxy listens.
type node struct {
	plain, secure string
	gossip        string
}

// startNode starts an agent that obtains a certificate for shop.example.com.
func startNode(t *testing.T, n, expect int, join string, change func(*config.Runtime)) node {
	t.Helper()
	name := fmt.Sprintf("m%d", n)
	loaded, err := config.Load(config.Options{Host: config.Host{Name: name}, Flags: []config.Setting{
		{Option: "node_name", Value: name}, {Option: "data_dir", Value: t.TempDir()}, {Option: "bind", Value: "127.0.0.1"}, {Option: "profile", Value: "local"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := loaded.Runtime
	any := netip.MustParseAddrPort("127.0.0.1:0")
	net1 := &cfg.Network
	net1.Bind, net1.Advertise, net1.Client, net1.HTTP, net1.RPC = any.Addr(), any.Addr(), any.Addr(), any, any
	cfg.Proxy.HTTP, cfg.Proxy.HTTPS = any, any
	cfg.Join.BootstrapExpect = expect
	if join != "" {
		cfg.Join.Retry = []string{join}
	}
	cfg.Proxy.ACME.Hosts, cfg.Proxy.ACME.Agree = []string{"shop.example.com"}, true
	change(&cfg)
	var mu sync.Mutex
	var addrs []string // RPC, API, proxy, TLS proxy, in the order in which they are bound
	// Whoever takes a port for gossip keeps it: others have to know it.
	port, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{"127.0.0.1"}, Logger: log.New(t.Output(), "", 0)})
	if err != nil {
		t.Fatal(err)
	}
	env := agent.Env{Gossip: port, Listen: func(addr netip.AddrPort) (net.Listener, error) {
		ln, err := net.Listen("tcp", addr.String())
		if err == nil {
			mu.Lock()
			addrs = append(addrs, ln.Addr().String())
			mu.Unlock()
		}
		return ln, err
	}}
	a, err := agent.NewIn(env, cfg, hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: t.Output()}), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended: %v", name, err)
		}
	})
	return node{plain: addrs[len(addrs)-2], secure: addrs[len(addrs)-1], gossip: fmt.Sprint("127.0.0.1:", port.GetAutoBindPort())}
}

// shown returns the certificate that a node shows, nil for none.
func shown(t *testing.T, n node) []byte {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: "shop.example.com"}}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	nc, err := d.DialContext(ctx, "tcp", n.secure)
	if err != nil {
		return nil
	}
	defer nc.Close()
	return nc.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
}

func awaitShown(t *testing.T, n node) []byte {
	t.Helper()
	deadline := time.Now().Add(4 * time.Minute) // an order that failed is repeated after a minute
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if raw := shown(t, n); raw != nil {
			return raw
		}
		if time.Now().After(deadline) {
			t.Fatal("no certificate in time")
		}
		<-tick.C
	}
}

// Where proof by HTTP fails, the other kind is tried at once.
func TestAgents_theOtherKind(t *testing.T) {
	t.Parallel()
	a := acmetest.Start(t, time.Hour)
	a.HTTP.To("127.0.0.1:1") // nobody is there
	one := startNode(t, 1, 1, "", func(cfg *config.Runtime) {
		cfg.Proxy.ACME.Directory, cfg.Proxy.ACME.CAFile = a.Directory, a.RootsFile
	})
	a.TLS.To(one.secure)
	awaitShown(t, one)
}

// The authority asks two agents in turn, at their proxies' own ports, and both
// show the one certificate that one of them has ordered.
func TestAgents_oneCertificateForTwo(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"HTTP-01": true, "TLS-ALPN-01": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := acmetest.Start(t, time.Hour)
			set := func(cfg *config.Runtime) {
				cfg.Proxy.ACME.Directory, cfg.Proxy.ACME.CAFile = a.Directory, a.RootsFile
				cfg.Join.Encrypt = bytes.Repeat([]byte("k"), 32)
				cfg.Proxy.RedirectHTTPS = true // which must not hinder the authority
				if !plain {
					cfg.Proxy.HTTP = netip.AddrPort{}
				}
			}
			one := startNode(t, 1, 2, "", set)
			two := startNode(t, 2, 2, one.gossip, set)
			if plain {
				a.HTTP.To(one.plain, two.plain)
			} else {
				a.TLS.To(one.secure, two.secure)
			}
			if !bytes.Equal(awaitShown(t, one), awaitShown(t, two)) {
				t.Error("they show two certificates")
			}
		})
	}
}

// Without a secret that agents share no key travels: each orders for itself.
func TestAgents_withoutASecret(t *testing.T) {
	t.Parallel()
	a := acmetest.Start(t, time.Hour)
	set := func(cfg *config.Runtime) {
		cfg.Proxy.ACME.Directory, cfg.Proxy.ACME.CAFile = a.Directory, a.RootsFile
	}
	one := startNode(t, 1, 2, "", set)
	two := startNode(t, 2, 2, one.gossip, set)
	a.HTTP.To(one.plain, two.plain)
	if bytes.Equal(awaitShown(t, one), awaitShown(t, two)) {
		t.Error("they show one certificate")
	}
}
