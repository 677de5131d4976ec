package agenttest

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/rondel-project/rondel/agent/config"
)

// Cut separates the named members from all others, both ways. Nothing is
// refused: what is sent does not arrive.
func (c *Cluster) Cut(names ...string) {
	c.islands = append(c.islands, names)
	c.link()
}

// CutLink separates two members from each other only.
func (c *Cluster) CutLink(a, b string) {
	c.links = append(c.links, [2]string{a, b})
	c.link()
}

// CutOneWay loses what one member sends another; the other way all arrives. No
// new connection comes about between them, since those need both ways.
func (c *Cluster) CutOneWay(from, to string) {
	c.oneWay = append(c.oneWay, [2]string{from, to})
	c.link()
}

// Heal takes back all cuts and all slowness. Bytes that waited arrive.
func (c *Cluster) Heal() {
	c.islands, c.links, c.oneWay = nil, nil, nil
	clear(c.slow)
	c.gossip.Heal()
	c.link()
}

// Slow delays all that a member sends.
func (c *Cluster) Slow(name string, d time.Duration) {
	c.slow[name] = d
	c.gossip.Slow(netip.AddrPortFrom(addrOf(name), gossipPort), d)
	c.link()
}

// link brings the present cuts to the network, also to members that have come
// since.
func (c *Cluster) link() {
	c.net.update(func() {
		clear(c.net.cut)
		clear(c.net.slow)
		for name, d := range c.slow {
			c.net.slow[addrOf(name)] = d
		}
		for _, l := range c.links {
			c.net.cut[[2]netip.Addr{addrOf(l[0]), addrOf(l[1])}] = true
			c.net.cut[[2]netip.Addr{addrOf(l[1]), addrOf(l[0])}] = true
		}
		for _, l := range c.oneWay {
			c.net.cut[[2]netip.Addr{addrOf(l[0]), addrOf(l[1])}] = true
		}
		for _, island := range c.islands {
			for _, in := range island {
				for _, m := range c.last() {
					if !slices.Contains(island, m.Name) {
						c.net.cut[[2]netip.Addr{addrOf(in), m.Addr}] = true
						c.net.cut[[2]netip.Addr{m.Addr, addrOf(in)}] = true
					}
				}
			}
		}
	})
	for _, l := range c.links {
		a, b := netip.AddrPortFrom(addrOf(l[0]), gossipPort), netip.AddrPortFrom(addrOf(l[1]), gossipPort)
		c.gossip.CutOneWay(a, b)
		c.gossip.CutOneWay(b, a)
	}
	for _, l := range c.oneWay {
		c.gossip.CutOneWay(netip.AddrPortFrom(addrOf(l[0]), gossipPort), netip.AddrPortFrom(addrOf(l[1]), gossipPort))
	}
	for _, island := range c.islands {
		var addrs []netip.AddrPort
		for _, name := range island {
			addrs = append(addrs, netip.AddrPortFrom(addrOf(name), gossipPort))
		}
		c.gossip.Cut(addrs...)
	}
}

// Crash kills a member's process: nothing is said, its memory is lost, and
// whoever dials it is refused.
func (c *Cluster) Crash(name string) {
	m := c.Member(name)
	m.ended.Store(true)
	m.host.kill()
	c.gossip.Crash(netip.AddrPortFrom(m.Addr, gossipPort))
	m.cancel()
}

// Unplug takes the power from a member's machine: as Crash, but nothing is
// refused, since nobody is there to refuse it.
func (c *Cluster) Unplug(name string) {
	c.Cut(name)
	c.Crash(name)
}

// Restart starts a member again whose process has ended or is killed now.
// Without keepDir its data directory is lost: it is a new member then.
func (c *Cluster) Restart(name string, keepDir bool, configure ...func(*config.Runtime)) *Member {
	c.t.Helper()
	if m := c.Member(name); !m.ended.Load() {
		c.Crash(name)
	}
	<-c.Member(name).done
	if !keepDir {
		c.wipe(name)
	}
	m, err := c.TryStart(name, configure...)
	if err != nil {
		c.t.Fatalf("restart %s: %v", name, err)
	}
	return m
}

// Stop stops a member as SIGTERM does, and waits until its process has ended.
func (c *Cluster) Stop(name string) {
	c.t.Helper()
	m := c.Member(name)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := m.Shutdown(ctx, false); err != nil {
		c.t.Fatalf("stop %s: %v", name, err)
	}
	if err := m.Wait(); err != nil {
		c.t.Errorf("%s ended: %v", name, err)
	}
}

// Leaving takes a member from those that Members names, so that users of the
// cluster turn to others; its process runs on.
func (c *Cluster) Leaving(name string) *Member {
	c.t.Helper()
	m := c.Member(name)
	m.ended.Store(true)
	return m
}

// Wait waits for the end of the member's process, and returns Run's error.
func (m *Member) Wait() error {
	<-m.done
	m.ended.Store(true)
	return m.err
}

// Ended is closed when the member's process has ended.
func (m *Member) Ended() <-chan struct{} { return m.done }
