package agent

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/accesslog"
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/agent/proxy"
	"github.com/rondel-project/rondel/agent/telemetry"
)

// buildDoors binds the ports that users reach.
func (a *Agent) buildDoors(env Env, cfg config.Runtime, log hclog.Logger, undo *[]func() error) error {
	if env.NoDoors {
		return nil
	}
	d := &doors{listen: env.Listen}
	var err error
	d.access, err = accesslog.Open(accesslog.Options{
		Config: accessLog(cfg.Proxy.AccessLog), Stdout: os.Stdout, Stderr: os.Stderr, Log: log,
	})
	if err != nil {
		return err
	}
	*undo = append(*undo, d.access.Close)
	bind := func(what, option string, addr netip.AddrPort, to *[]net.Listener) error {
		l, err := env.Listen(addr)
		if err != nil {
			return portError(what, option, addr, err)
		}
		*undo = append(*undo, l.Close)
		*to = append(*to, l)
		return nil
	}
	if err := bind("HTTP API", "-http-port", cfg.Network.HTTP, &d.apiPorts); err != nil {
		return err
	}
	if d.secure, err = newSecure(cfg.Proxy, log); err != nil {
		return err
	}
	if d.secure.authority, err = a.newAuthority(cfg, d.secure, log); err != nil {
		return fmt.Errorf("certificates of an authority: %w", err)
	}
	if d.proxyPorts, _, err = d.bindProxy(cfg.Proxy); err != nil {
		return err
	}
	for _, p := range d.proxyPorts {
		*undo = append(*undo, p.Close)
	}
	a.doors = d
	return nil
}

// openDoors makes what answers at those ports, once all that it speaks for is
// there.
func (a *Agent) openDoors(cfg config.Runtime, log hclog.Logger) (err error) {
	if a.doors == nil {
		return nil
	}
	var challenges proxy.Challenges
	if s := a.doors.secure; s != nil && s.authority != nil {
		challenges = s.authority
	}
	a.doors.proxy, err = proxy.New(proxy.Options{
		Challenges: challenges,
		Start:      rand.Uint64(),
		Access:     a.doors.access,
		Config:     proxyConfig(cfg, ""), Sessions: proxySessions{a.engine}, Bindings: proxySessions{a.engine}, Observe: proxyFigures{&a.metrics.Proxy}, Log: log,
	})
	if err != nil {
		return err
	}
	a.doors.openProxy(a.doors.proxyPorts)
	b := backend{a}
	a.doors.api = httpapi.New(httpapi.Options{
		Logger: log, Process: b, Members: membersBackend{a}, Ring: ringBackend{a}, Moves: movesBackend{a}, Sessions: sessionsBackend{a},
		Services: servicesBackend{a}, Checks: servicesBackend{a}, Catalog: catalogBackend{a}, Raft: b,
		Logs: logsOf(log), Metrics: a.metrics, Node: cfg.Node.Name, Hosts: cfg.API.Hosts,
		MaxSession: int(cfg.Session.MaxSize), Loops: a.loops,
	})
	return nil
}

// proxyFigures counts the proxy's requests.
type proxyFigures struct{ *telemetry.Proxy }

// Route implements proxy.Observers.
func (f proxyFigures) Route(name string) proxy.Observer { return f.Proxy.Route(name) }

// logsOf returns the logger as the monitor listens to it. A logger that cannot
// be listened to is replaced by one that says nothing.
func logsOf(log hclog.Logger) httpapi.Logs {
	if l, ok := log.(hclog.InterceptLogger); ok {
		return l
	}
	return hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off})
}
