package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Network is where an agent listens and what it tells others. Port 0 means one
// that the operating system picks.
type Network struct {
	Bind      netip.Addr     `opt:"bind"`
	Advertise netip.Addr     `opt:"advertise"`
	Client    netip.Addr     `opt:"client"`
	HTTP      netip.AddrPort `opt:"ports.http"`
	Gossip    netip.AddrPort `opt:"ports.gossip"`
	RPC       netip.AddrPort `opt:"ports.rpc"`
}

func (f *File) network(c *checker, host Host) Network {
	f.Ports.check(c)
	n := Network{Bind: c.address("bind", *f.Bind, host, true), Client: c.address("client", *f.Client, host, true)}
	if *f.Advertise != "" {
		n.Advertise = c.address("advertise", *f.Advertise, host, false)
		if n.Advertise.IsUnspecified() {
			c.fail("advertise", *f.Advertise, "must be one address: others cannot connect to a wildcard")
		} else if n.Advertise.IsLoopback() && n.Bind.IsValid() && !n.Bind.IsLoopback() {
			c.fail("advertise", *f.Advertise, "must not be a loopback address unless bind is one")
		}
	} else if n.Bind.IsValid() {
		n.Advertise = f.chooseAdvertise(c, &n, host)
	}
	n.HTTP = netip.AddrPortFrom(n.Client, uint16(*f.Ports.HTTP))
	n.Gossip = netip.AddrPortFrom(n.Bind, uint16(*f.Ports.Gossip))
	n.RPC = netip.AddrPortFrom(n.Bind, uint16(*f.Ports.RPC))
	return n
}

func (c *checker) address(option, text string, host Host, here bool) netip.Addr {
	addr, rule := host.parseAddress(text)
	if rule == "" && here && !host.has(addr) {
		rule = "is not an address of this machine, which has " + listAddresses(host.Addresses)
	}
	if rule != "" {
		c.fail(option, text, rule)
	}
	return addr
}

func (f *File) chooseAdvertise(c *checker, n *Network, host Host) netip.Addr {
	if !n.Bind.IsUnspecified() {
		return n.Bind
	}
	_, chosen := c.origins["bind"]
	candidates := host.Addresses
	if chosen && n.Bind.Is4() {
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(a HostAddress) bool { return !a.Addr.Is4() })
	}
	addr, err := ChooseAddress(candidates)
	switch {
	case err == nil:
	case errors.Is(err, ErrNoAddress) && f.alone():
		// One agent without a network needs nobody to reach it.
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		c.warn("advertise", addr, "was taken because this machine has no other address; only agents on this machine can join")
	default:
		c.fail("advertise", "", err.Error()+"; set advertise (-advertise=ADDRESS) or bind (-bind=ADDRESS) to the one that other agents reach this machine by")
		return netip.Addr{}
	}
	if addr.Is6() && !chosen {
		n.Bind = netip.IPv6Unspecified()
	}
	return addr
}

func (f *File) alone() bool {
	return *f.BootstrapExpect <= 1 && len(*f.Join) == 0 && len(*f.RetryJoin) == 0
}

// listening is one TCP listener and the option behind it.
type listening struct {
	option string
	at     netip.AddrPort
}

// checkListeners reports every pair that cannot listen at the same time.
func checkListeners(c *checker, r Runtime) {
	all := []listening{
		{"ports.http", r.Network.HTTP}, {"ports.gossip", r.Network.Gossip}, {"ports.rpc", r.Network.RPC},
		{"redis.address", r.Redis.Address}, {"proxy.http", r.Proxy.HTTP}, {"proxy.https", r.Proxy.HTTPS},
	}
	for i, later := range all {
		for _, earlier := range all[:i] {
			if collide(earlier.at, later.at) {
				// The complaint goes where the operator wrote something.
				named, other := later, earlier
				if _, written := c.origins[named.option]; !written {
					named, other = earlier, later
				}
				c.fail(named.option, named.at, fmt.Sprintf("collides with %s, which listens on %s (%s)", other.option, other.at, c.origins.of(other.option)))
			}
		}
	}
}

func collide(a, b netip.AddrPort) bool {
	if !a.IsValid() || !b.IsValid() || a.Port() != b.Port() || a.Port() == 0 {
		return false
	}
	if a.Addr() == b.Addr() {
		return true
	}
	return covers(a.Addr(), b.Addr()) || covers(b.Addr(), a.Addr())
}

// covers reports whether listening on wild takes the port on addr, too: the v6
// wildcard listens on v4 as well.
func covers(wild, addr netip.Addr) bool {
	return wild.IsUnspecified() && (wild.Is6() || addr.Is4())
}

// peers reads addresses of agents to join and gives them the gossip port that
// this agent has itself.
func (c *checker) peers(option string, texts []string, port int) []string {
	if port == 0 {
		port = *defaultPorts().Gossip
	}
	var out []string
	for _, text := range texts {
		peer, ok := peerAddress(text, port)
		if !ok {
			c.fail(option, text, `must be a host name or an address, with a port or without, as in "10.0.0.11", "web1:8701" or "[2001:db8::1]:8701"`)
			continue
		}
		out = append(out, peer)
	}
	return out
}

func peerAddress(text string, port int) (string, bool) {
	withPort := func(host string) string {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return fmt.Sprintf("%s:%d", host, port)
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if isAddr(bare) && (bare == text || text == "["+bare+"]") {
		return withPort(bare), true
	}
	if hostName(text) {
		return withPort(text), true
	}
	host, p, ok := splitHostPort(text)
	return text, ok && p != 0 && (isAddr(host) || hostName(host))
}
