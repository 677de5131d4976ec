package agent

import (
	"net"
	"net/netip"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/proxy"
)

// proxyPort is a listener of the proxy, and the option that it comes from.
type proxyPort struct {
	net.Listener
	option string
	addr   netip.AddrPort // as configured; the listener's own may have another port
}

// bindProxy returns listeners as a configuration wants them: those that are
// there already, and fresh ones. On an error nothing is left bound that was not.
func (d *doors) bindProxy(cfg config.Proxy) (ports, fresh []proxyPort, err error) {
	for _, want := range []struct {
		what, flag string
		proxyPort
	}{
		{"proxy", "-proxy-port", proxyPort{option: "proxy.http", addr: cfg.HTTP}},
		{"HTTPS proxy", "proxy.https", proxyPort{option: "proxy.https", addr: cfg.HTTPS}},
	} {
		p := want.proxyPort
		if !p.addr.IsValid() {
			continue
		}
		for _, have := range d.proxyPorts {
			if have.option == p.option && have.addr == p.addr {
				p.Listener = have.Listener
			}
		}
		if p.Listener == nil {
			l, err := d.listen(p.addr)
			if err != nil {
				closePorts(fresh)
				return nil, nil, portError(want.what, want.flag, p.addr, err)
			}
			if p.Listener = l; p.option == "proxy.https" {
				p.Listener = &proxy.Door{Listener: l, TLS: d.secure.tls()}
			}
			fresh = append(fresh, p)
		}
		ports = append(ports, p)
	}
	return ports, fresh, nil
}

func closePorts(ports []proxyPort) {
	for _, p := range ports {
		p.Close() // nobody has connected yet
	}
}

// openProxy has the proxy accept from these listeners and from no others.
func (d *doors) openProxy(ports []proxyPort) {
	d.proxyPorts = ports
	list := make([]net.Listener, len(ports))
	for i, p := range ports {
		list[i] = p.Listener
	}
	d.proxy.Listen(list...)
}

// proxyPortOf is the port that other members hear of, 0 for none.
func (d *doors) proxyPortOf() uint16 {
	if len(d.proxyPorts) == 0 {
		return 0
	}
	return portOf(d.proxyPorts[0].Addr())
}

// movePorts puts listeners in force that bindProxy has bound.
func (a *Agent) movePorts(ports []proxyPort) {
	before := a.doors.proxyPortOf()
	a.doors.openProxy(ports)
	if now := a.doors.proxyPortOf(); now != before {
		a.gossip.UpdateMeta(func(m *member.Meta) { m.ProxyPort = now })
	}
}
