package settings

import (
	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/command/flags"
)

// Settings collects what the command line says about an agent.
type Settings struct {
	paths []string
	flags []config.Setting
}

type setting struct {
	flag, option, shape, text string
	repeat                    bool
}

// table holds every flag that sets an option.
func table() []setting {
	return []setting{
		{"data-dir", "data_dir", "DIR", "where the agent keeps its identity and state", false},
		{"node", "node_name", "NAME", "name of this member (default: the host name; with -bind=127.0.0.12 and the like, this address too)", false},
		{"bind", "bind", "ADDRESS", "where gossip, agent-to-agent traffic and the proxy listen (default 0.0.0.0)", false},
		{"advertise", "advertise", "ADDRESS", "address told to other agents (default: bind, or this machine's one private address)", false},
		{"client", "client", "ADDRESS", "where the HTTP API and the Redis protocol listen (default 127.0.0.1)", false},
		{"http-port", "ports.http", "PORT", "port of the HTTP API (default 8700)", false},
		{"gossip-port", "ports.gossip", "PORT", "port of gossip, TCP and UDP (default 8701)", false},
		{"rpc-port", "ports.rpc", "PORT", "port of agent-to-agent traffic (default 8702)", false},
		{"redis-port", "redis_port", "PORT", "port of the Redis protocol (default: off)", false},
		{"proxy-port", "proxy_port", "PORT", "port of the HTTP proxy (default 8780)", false},
		{"bootstrap-expect", "bootstrap_expect", "N", "form a new cluster when so many agents have met", false},
		{"join", "join", "ADDRESS", "agent to join; the start fails if none answers", true},
		{"retry-join", "retry_join", "ADDRESS", "agent to join, tried for ever", true},
		{"service", "service", "NAME:PORT", "an application on this machine to send traffic to", true},
		{"profile", "profile", "lan|wan|local", "gossip timings (default lan)", false},
		{"encrypt", "encrypt", "KEY", "gossip key from `rondel keygen`; ps shows flags, so rather use a file or RONDEL_ENCRYPT", false},
		{"log-level", "log_level", "LEVEL", "trace, debug, info, warn or error (default info)", false},
		{"pid-file", "pid_file", "FILE", "write the process id there", false},
	}
}

// Declare adds the flags to a verb. files also adds -config-file and
// -config-dir, for verbs whose arguments are not the files.
func (s *Settings) Declare(set *flags.Set, files bool) {
	if files {
		for name, shape := range map[string]string{"config-file": "FILE", "config-dir": "DIR"} {
			set.Func(name, shape, "read configuration from there, later ones win", true, func(text string) error {
				s.paths = append(s.paths, text)
				return nil
			})
		}
	}
	for _, t := range table() {
		set.Func(t.flag, t.shape, t.text, t.repeat, s.add(t.flag, t.option))
	}
	for _, t := range []setting{
		{flag: "dev", option: "dev", text: "for development: all on 127.0.0.1, everything in memory, its own leader at once"},
		{flag: "witness", option: "witness", text: "vote for a leader, hold no sessions"},
		{flag: "log-json", option: "log_json", text: "log as JSON, one document a line"},
	} {
		set.Switch(t.flag, t.text, s.add(t.flag, t.option))
	}
}

func (s *Settings) add(flag, option string) func(string) error {
	return func(text string) error {
		s.flags = append(s.flags, config.Setting{Option: option, Value: text, Flag: "-" + flag})
		return nil
	}
}

// Load reads the configuration: the paths given by flags, then those given
// here. It may be called again, and reads the files anew.
func (s *Settings) Load(environ []string, paths ...string) (config.Loaded, error) {
	host, err := config.ThisHost()
	if err != nil {
		return config.Loaded{}, err
	}
	return config.Load(config.Options{
		Paths:   append(s.paths[:len(s.paths):len(s.paths)], paths...),
		Environ: environ,
		Flags:   s.flags,
		Host:    host,
	})
}
