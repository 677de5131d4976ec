package stage

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// machines is how many agents there are, each with a shop beside it.
const machines = 3

// The ports that are used where they are free.
const (
	portHTTP   = 8700
	portGossip = 8701
	portRPC    = 8702
	portProxy  = 8780
	portShop   = 8080
	portFront  = 8780
)

// Place is what stands for one machine: an address and the ports on it.
type Place struct {
	Addr   netip.Addr
	HTTP   int
	Gossip int
	RPC    int
	Proxy  int
	Shop   int
}

// at returns host:port.
func (p Place) at(port int) string { return net.JoinHostPort(p.Addr.String(), strconv.Itoa(port)) }

// API returns the URL of the agent's HTTP API.
func (p Place) API() string { return "http://" + p.at(p.HTTP) }

// ProxyAddress returns host:port of the agent's proxy.
func (p Place) ProxyAddress() string { return p.at(p.Proxy) }

// holder keeps ports bound until the process that needs them is about to start,
// so that two stages at once do not choose the same.
type holder struct{ open []interface{ Close() error } }

func (h *holder) release() error {
	var errs []error
	for _, l := range h.open {
		errs = append(errs, l.Close())
	}
	h.open = nil
	return errors.Join(errs...)
}

// port holds want on addr, or a free port where that is taken.
func (h *holder) port(addr netip.Addr, want int, udp bool) (int, error) {
	var errs []error
	for attempt := range 20 {
		port := want
		if attempt > 0 {
			port = 0
		}
		got, err := h.bind(addr, port, udp)
		if err == nil {
			return got, nil
		}
		errs = append(errs, err)
	}
	return 0, fmt.Errorf("no free port on %s: %w", addr, errs[len(errs)-1])
}

func (h *holder) bind(addr netip.Addr, port int, udp bool) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(addr.String(), strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	got := l.Addr().(*net.TCPAddr).Port
	if udp {
		u, err := net.ListenPacket("udp", net.JoinHostPort(addr.String(), strconv.Itoa(got)))
		if err != nil {
			return 0, errors.Join(err, l.Close())
		}
		h.open = append(h.open, u)
	}
	h.open = append(h.open, l)
	return got, nil
}

// reserve takes the usual ports of a machine for one stage, as long as that
// lives: what says so is the API's port for packets, which no agent uses.
// Without it two stages that start at once would take the same ports, each
// finding them free until the other's processes are up.
func reserve(addr netip.Addr) (net.PacketConn, error) {
	return net.ListenPacket("udp", net.JoinHostPort(addr.String(), strconv.Itoa(portHTTP)))
}

// hold chooses the ports of a machine: the usual ones that are free, if usual
// is set.
func (h *holder) hold(addr netip.Addr, usual bool) (Place, error) {
	p := Place{Addr: addr}
	for _, want := range []struct {
		port int
		udp  bool
		to   *int
	}{
		{portHTTP, false, &p.HTTP}, {portGossip, true, &p.Gossip}, {portRPC, false, &p.RPC}, {portProxy, false, &p.Proxy}, {portShop, false, &p.Shop},
	} {
		if !usual {
			want.port = 0
		}
		got, err := h.port(addr, want.port, want.udp)
		if err != nil {
			return Place{}, err
		}
		*want.to = got
	}
	return p, nil
}

// addresses returns one address for each machine: 127.0.0.11 and up, or, where
// the system has only 127.0.0.1 on its loopback interface, that for all.
func addresses() []netip.Addr {
	var out []netip.Addr
	for i := range machines {
		addr := netip.AddrFrom4([4]byte{127, 0, 0, byte(11 + i)})
		l, err := net.Listen("tcp", net.JoinHostPort(addr.String(), "0"))
		if err != nil {
			return []netip.Addr{home(), home(), home()}
		}
		l.Close()
		out = append(out, addr)
	}
	return out
}

func home() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }
