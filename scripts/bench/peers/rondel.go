package peers

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
)

// Rondel is one agent for development with all instances beside it, the program at
// path. Its sticky cookies are on, as they always are.
func Rondel(name, path string) Peer {
	return Peer{Name: name, Rondel: true, start: func(r *Runner, s *Setting) (Program, error) {
		ports, err := Ports(3)
		if err != nil {
			return Program{}, err
		}
		return rondel(r, slug(name), path, s, ports[0], ports[1:], "")
	}}
}

// RondelAPI is the same with its API at a known address, and room for sessions.
func RondelAPI(name, path, api string) Peer {
	return Peer{Name: name, Rondel: true, start: func(r *Runner, s *Setting) (Program, error) {
		ports, err := Ports(2)
		if err != nil {
			return Program{}, err
		}
		return rondel(r, slug(name), path, s, api, ports, "session {\n  max_count = 4000000\n}\n")
	}}
}

func rondel(r *Runner, name, path string, s *Setting, api string, ports []string, more string) (Program, error) {
	numbers := []any{}
	for _, addr := range append([]string{api}, ports...) {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return Program{}, err
		}
		numbers = append(numbers, port)
	}
	text := fmt.Sprintf("node_name = %q\nlog_level = \"warn\"\nports {\n  http = %s\n  gossip = %s\n  rpc = %s\n}\n", append([]any{name}, numbers...)...)
	text += more + services(s.Instances, 0, "")
	text += fmt.Sprintf("proxy {\n  http = %q\n", s.Addr)
	if s.TLS != "" {
		text += fmt.Sprintf("  https = %q\n  cert_file = %q\n  key_file = %q\n", s.TLS, s.Cert, s.Key)
	}
	file, err := r.write(name+".hcl", text+"}\n")
	return Program{
		Args: []string{path, "agent", "-dev", "-config-file=" + file},
		Env:  []string{"GOMAXPROCS=" + strconv.Itoa(s.Threads)},
	}, err
}

// services are the blocks of instances, the first of which has the number from; more
// is in each.
func services(addrs []string, from int, more string) (text string) {
	for i, addr := range addrs {
		host, port, _ := net.SplitHostPort(addr) // they come from Ports
		text += fmt.Sprintf("service %q {\n  name    = \"shop\"\n  address = %q\n  port    = %s\n%s}\n", InstanceName(from+i), host, port, more)
	}
	return text
}

// Agent is one of several agents that form a cluster.
type Agent struct {
	Name             string
	API, Gossip, RPC string
	Proxy            string
	Instances        []string // beside it
	First            int      // the number of the first of these
	Join             string   // the gossip address of another one
	Of               int      // how many agents there are
}

// StartAgent starts an agent of a cluster, the program at path. Instances are checked
// at /health.
func StartAgent(r *Runner, path string, a Agent) (*Process, error) {
	var ports []any
	for _, addr := range []string{a.API, a.Gossip, a.RPC} {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	text := fmt.Sprintf("node_name = %q\nlog_level = \"warn\"\nbind = \"127.0.0.1\"\nbootstrap_expect = %d\ndata_dir = %q\n", a.Name, a.Of, filepath.Join(r.Dir, a.Name))
	if a.Join != "" {
		text += fmt.Sprintf("retry_join = [%q]\n", a.Join)
	}
	text += fmt.Sprintf("ports {\n  http = %s\n  gossip = %s\n  rpc = %s\n}\nproxy {\n  http = %q\n}\n", append(ports, a.Proxy)...)
	text += services(a.Instances, a.First, "  check {\n    http = \"/health\"\n  }\n")
	file, err := r.write(a.Name+".hcl", text)
	if err != nil {
		return nil, err
	}
	return r.Start(Program{Name: a.Name, Args: []string{path, "agent", "-config-file=" + file}, CPU: -1})
}
