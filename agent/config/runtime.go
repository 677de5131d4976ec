package config

import (
	"encoding/base64"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Runtime is what an agent runs on: plain values, merged and checked. It is
// passed by value and never changed. An opt tag names the option behind a
// field, and "reload" marks those that a running agent can change.
type Runtime struct {
	Dev     bool `opt:"dev"` // everything in memory
	Node    Node
	Log     Log
	Network Network
	Join    Join
	Cluster Cluster
	Session Session
	API     API
	Proxy   Proxy
	Redis   Redis

	// Sorted by ID and by Name.
	Services []Service `opt:"service,reload"`
	Routes   []Route   `opt:"route,reload"`
}

// Node is who this agent is and where it keeps things.
type Node struct {
	Name    string `opt:"node_name"`
	DataDir string `opt:"data_dir"` // empty with Dev
	PidFile string `opt:"pid_file"`
	Witness bool   `opt:"witness"`
}

// Log is how the agent reports.
type Log struct {
	Level string `opt:"log_level,reload"`
	JSON  bool   `opt:"log_json"`
}

// Profile names a set of gossip timings.
type Profile string

// LAN and Local find a dead member in about two seconds; WAN allows for long
// ways.
const (
	LAN   Profile = "lan"
	WAN   Profile = "wan"
	Local Profile = "local"
)

// Join is how this agent finds and proves to be of its cluster. Addresses are
// host:port with the gossip port.
type Join struct {
	BootstrapExpect int      `opt:"bootstrap_expect"`
	Once            []string `opt:"join"`
	Retry           []string `opt:"retry_join,reload"`
	Profile         Profile  `opt:"profile"`
	Encrypt         []byte   `opt:"encrypt"` // 16, 24 or 32 bytes, or none
}

func (f *File) runtime(c *checker, host Host) Runtime {
	network := f.network(c, host)
	r := Runtime{
		Dev:     *f.Dev,
		Node:    f.node(c, network.Bind),
		Log:     Log{Level: *f.LogLevel, JSON: *f.LogJSON},
		Network: network,
		Join:    f.join(c),
		Cluster: f.cluster(c),
		Session: f.Session.runtime(c),
		API:     f.API.runtime(c),
		Proxy:   f.Proxy.runtime(c, network.Bind),
		Redis:   f.Redis.runtime(c, network.Client),
	}
	c.oneOf("log_level", *f.LogLevel, "trace", "debug", "info", "warn", "error")
	for _, id := range sortedKeys(f.Services) {
		r.Services = append(r.Services, merge(defaultService(id), f.Services[id]).runtime(c, id))
	}
	for _, name := range sortedKeys(f.Routes) {
		r.Routes = append(r.Routes, merge(defaultRoute(name), f.Routes[name]).runtime(c, name))
	}
	if r.Dev && len(r.Proxy.ACME.Hosts) > 0 {
		c.warn("proxy.acme.hosts", "", "with -dev certificates are obtained anew at each start, and authorities limit how many there may be in a week")
	}
	if r.Cluster.OnPartition == Refuse && r.Cluster.Replicas > 0 && r.Join.BootstrapExpect == 2 {
		c.warn("session.on_partition", string(Refuse), "writes to two members at least: with two, sessions cannot be changed while either is down; three go on without one")
	}
	checkRoutes(c, r.Routes)
	checkRedirects(c, r.Routes, r.Proxy)
	checkListeners(c, r)
	return r
}

func (f *File) node(c *checker, bind netip.Addr) Node {
	name := *f.NodeName
	if _, named := c.origins["node_name"]; !named {
		name = defaultName(name, bind)
	}
	if !plainName(name) {
		c.fail("node_name", name, "must be 1 to 64 letters, digits, dots, hyphens or underscores")
	}
	n := Node{Name: name, DataDir: *f.DataDir, PidFile: *f.PidFile, Witness: *f.Witness}
	switch {
	case *f.Dev && n.DataDir != "":
		c.warn("data_dir", n.DataDir, "has no effect with -dev, which keeps everything in memory")
		n.DataDir = ""
	case *f.Dev:
	case n.DataDir == "":
		c.fail("data_dir", "", "must name a directory for this agent's state (-data-dir=DIR), unless -dev keeps everything in memory")
	default:
		if info, err := os.Stat(n.DataDir); err == nil && !info.IsDir() {
			c.fail("data_dir", n.DataDir, "must be a directory, and this is a file")
		}
	}
	return n
}

// defaultName is the host's name, and with it the address of an agent that
// was given a loopback address of its own: several of them run on one machine.
func defaultName(host string, bind netip.Addr) string {
	if !bind.Is4() || !bind.IsLoopback() || bind == netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
		return host
	}
	return host + "-" + strings.ReplaceAll(bind.String(), ".", "-")
}

func (f *File) join(c *checker) Join {
	c.between("bootstrap_expect", *f.BootstrapExpect, 0, 1000)
	c.oneOf("profile", *f.Profile, string(LAN), string(WAN), string(Local))
	j := Join{
		BootstrapExpect: *f.BootstrapExpect,
		Once:            c.peers("join", *f.Join, *f.Ports.Gossip),
		Retry:           c.peers("retry_join", *f.RetryJoin, *f.Ports.Gossip),
		Profile:         Profile(*f.Profile),
	}
	if *f.Encrypt != "" {
		key, err := base64.StdEncoding.DecodeString(*f.Encrypt)
		if err != nil || !slices.Contains([]int{16, 24, 32}, len(key)) {
			c.fail("encrypt", "", "must be 16, 24 or 32 bytes in base64; `rondel keygen` makes one")
		}
		j.Encrypt = key
	}
	if *f.Dev && *f.BootstrapExpect == 1 && !f.alone() {
		c.fail("dev", true, "makes a cluster of its own, which cannot join another; leave out join and retry_join, or set bootstrap_expect")
	}
	if !*f.Dev && *f.BootstrapExpect == 0 && f.alone() {
		c.warn("bootstrap_expect", 0, "without join and retry_join means that the agent waits for `rondel join`; for a new cluster of one, set it to 1")
	}
	if *f.Witness && *f.BootstrapExpect == 1 {
		c.fail("witness", true, "cannot be the only member: it holds no sessions")
	}
	return j
}

// checkRoutes reports routes that match exactly the same requests.
func checkRoutes(c *checker, routes []Route) {
	seen := map[string]string{}
	for _, r := range routes {
		key := r.Host + " " + strings.TrimSuffix(r.Path, "/")
		if other, taken := seen[key]; taken {
			c.fail("route."+r.Name, "", "matches the same host and path as route."+other)
		}
		seen[key] = r.Name
		if !r.Redirect {
			continue
		}
		key = r.RedirectTo + " to " + strings.TrimSuffix(r.Path, "/")
		if other, taken := seen[key]; taken {
			c.fail("route."+r.Name+".redirect_to", r.RedirectTo, "sends clients to the same address and path as route."+other+", where the two cannot be told apart")
		}
		seen[key] = r.Name
	}
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
