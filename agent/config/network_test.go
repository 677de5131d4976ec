package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func machine(addrs ...string) Host {
	h := Host{Name: "web1", Addresses: []HostAddress{{"lo", netip.MustParseAddr("127.0.0.1")}, {"lo", netip.MustParseAddr("::1")}}}
	for _, a := range addrs {
		name, addr, _ := strings.Cut(a, "=")
		h.Addresses = append(h.Addresses, HostAddress{name, netip.MustParseAddr(addr)})
	}
	return h
}

func TestLoad_advertise(t *testing.T) {
	t.Parallel()
	cluster := []Setting{{"data_dir", "/tmp/x", "-data-dir"}, {"bootstrap_expect", "3", "-bootstrap-expect"}, {"retry_join", "10.0.0.9", "-retry-join"}}
	set := func(pairs ...string) (out []Setting) {
		for _, p := range pairs {
			option, value, _ := strings.Cut(p, "=")
			out = append(out, Setting{option, value, "-" + option})
		}
		return out
	}
	for name, c := range map[string]struct {
		host  Host
		flags []Setting
		want  string // address told to others, or part of the problem
	}{
		"single private":             {machine("eth0=10.0.0.5"), nil, "10.0.0.5"},
		"private before global":      {machine("eth0=10.0.0.5", "eth1=192.0.2.1"), nil, "10.0.0.5"},
		"single global":              {machine("eth0=192.0.2.1"), nil, "192.0.2.1"},
		"single global v6":           {machine("eth0=2001:db8::1", "eth0=fe80::1%eth0"), nil, "2001:db8::1"},
		"private v4 and global v6":   {machine("eth0=10.0.0.5", "eth0=2001:db8::1"), nil, "10.0.0.5"},
		"two private":                {machine("eth0=10.0.0.5", "docker0=172.17.0.1"), nil, "10.0.0.5 (eth0), 172.17.0.1 (docker0); set advertise"},
		"two global":                 {machine("eth0=192.0.2.1", "eth1=192.0.2.2"), nil, "192.0.2.1 (eth0), 192.0.2.2 (eth1)"},
		"none":                       {machine(), nil, "no address that others can reach"},
		"advertise wins":             {machine("eth0=10.0.0.5"), set("advertise=192.0.2.9"), "192.0.2.9"},
		"bind wins over choice":      {machine("eth0=10.0.0.5", "eth1=10.0.1.5"), set("bind=10.0.1.5"), "10.0.1.5"},
		"interface name":             {machine("eth0=10.0.0.5", "eth1=10.0.1.5"), set("bind=eth1"), "10.0.1.5"},
		"interface with two":         {machine("eth0=10.0.0.5", "eth0=10.0.0.6"), set("bind=eth0"), "several addresses, take one of them: 10.0.0.5 (eth0), 10.0.0.6"},
		"brackets":                   {machine("eth0=2001:db8::1"), set("bind=[2001:db8::1]"), "2001:db8::1"},
		"bind elsewhere":             {machine("eth0=10.0.0.5"), set("bind=10.9.9.9"), "is not an address of this machine"},
		"bind with port":             {machine("eth0=10.0.0.5"), set("bind=[::1]:8701"), "must be an IP address without a port"},
		"scoped":                     {machine("eth0=10.0.0.5"), set("bind=fe80::1%eth0"), "link-local"},
		"advertise wildcard":         {machine("eth0=10.0.0.5"), set("advertise=0.0.0.0"), "wildcard"},
		"advertise loopback":         {machine("eth0=10.0.0.5"), set("advertise=127.0.0.1"), "must not be a loopback address"},
		"loopback when bound to it":  {machine("eth0=10.0.0.5"), set("bind=127.0.0.11"), "127.0.0.11"},
		"v4 wildcard on v6 only":     {machine("eth0=2001:db8::1"), set("bind=0.0.0.0"), "no address"},
		"v6 wildcard on v4 and v6":   {machine("eth0=2001:db8::1"), set("bind=::"), "2001:db8::1"},
		"node without dots or ports": {machine("eth0=10.0.0.5"), set("retry_join=http://x"), "must be a host name or an address"},
	} {
		out, err := Load(Options{Host: c.host, Flags: append(slices.Clone(cluster), c.flags...)})
		if _, perr := netip.ParseAddr(c.want); perr == nil {
			if err != nil || out.Runtime.Network.Advertise.String() != c.want {
				t.Errorf("%s: %s, %v, want %s", name, out.Runtime.Network.Advertise, err, c.want)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a problem with %q", name, err, c.want)
		}
	}
}

func TestLoad_nameOfAgentsOnOneMachine(t *testing.T) {
	t.Parallel()
	for bind, want := range map[string]string{
		"": "web1", "127.0.0.1": "web1", "::1": "web1", "10.0.0.5": "web1", "127.0.0.12": "web1-127-0-0-12",
	} {
		flags := []Setting{{"data_dir", "/tmp/x", "-data-dir"}, {"bootstrap_expect", "3", "-bootstrap-expect"}}
		if bind != "" {
			flags = append(flags, Setting{"bind", bind, "-bind"})
		}
		if got := mustLoad(t, Options{Host: machine("eth0=10.0.0.5"), Flags: flags}).Runtime.Node.Name; got != want {
			t.Errorf("bound to %q the name is %q, want %q", bind, got, want)
		}
		flags = append(flags, Setting{"node_name", "web1", "-node"})
		if got := mustLoad(t, Options{Host: machine("eth0=10.0.0.5"), Flags: flags}).Runtime.Node.Name; got != "web1" {
			t.Errorf("bound to %q and named web1 the name is %q", bind, got)
		}
	}
}

func TestLoad_aloneNeedsNoNetwork(t *testing.T) {
	t.Parallel()
	out := mustLoad(t, Options{Host: machine(), Flags: []Setting{{"data_dir", "/tmp/x", "-data-dir"}, {"bootstrap_expect", "1", "-bootstrap-expect"}}})
	if !out.Runtime.Network.Advertise.IsLoopback() || len(out.Warnings) != 1 {
		t.Errorf("advertise = %s, warnings = %v", out.Runtime.Network.Advertise, out.Warnings)
	}
}

func TestLoad_v6OnlyListensOnV6(t *testing.T) {
	t.Parallel()
	out := mustLoad(t, Options{Host: machine("eth0=2001:db8::1"), Flags: []Setting{{"data_dir", "/tmp/x", "-data-dir"}, {"bootstrap_expect", "3", "-b"}}})
	if got := out.Runtime.Network.Gossip.String(); got != "[::]:8701" {
		t.Errorf("gossip listens on %s", got)
	}
}

func TestLoad_listenersOnOnePort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`proxy { http = ":8701" }`:                                `:1: proxy.http = "127.0.0.1:8701": collides with ports.gossip`,
		`ports { rpc = 8701 }`:                                    ":1: ports.rpc",
		`ports { gossip = 8702 }`:                                 ":1: ports.gossip",
		"ports {\n http = 0\n rpc = 0\n gossip = 0\n}":            "",
		"proxy {\n http = \"[::]:9000\"\n}\nports { rpc = 9000 }": "proxy.http",
	} {
		path := write(t, t.TempDir(), "a.hcl", text)
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestThisHost_hasLoopback(t *testing.T) {
	t.Parallel()
	h, err := ThisHost()
	if err != nil {
		t.Fatal(err)
	}
	if h.Name == "" || !slices.ContainsFunc(h.Addresses, func(a HostAddress) bool { return a.Addr.IsLoopback() }) {
		t.Errorf("host = %+v", h)
	}
}
