package services

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// maxFile bounds what is read of a file or of stdin.
const maxFile = 4 << 20

// Register registers instances.
type Register struct{ flags.Verb }

// NewRegister returns the verb.
func NewRegister(streams term.Streams) *Register {
	c := &Register{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "services register", Operands: "FILE", Min: 1, Max: 1, Args: "the file that describes the instance",
		Text: "Registers the instances that a file describes with the agent, or replaces those with the same id. They get traffic when their checks pass.\n\n" +
			"The file holds service blocks as in the agent's configuration, in HCL or JSON, or one JSON object as the HTTP API takes it. A dash reads stdin.\n\n" +
			"   service \"shop\" {\n    port = 8080\n    check { http = \"/health\" }\n  }",
		Examples: []string{"rondel services register shop.hcl", `echo '{"Name": "shop", "Port": 8080}' | rondel services register -`},
	})}
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Register) Synopsis() string { return "Register instances from a file" }

// Run executes the verb.
func (c *Register) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Register) run(ctx context.Context, client *api.Client, args []string) error {
	text, err := c.read(args[0])
	if err != nil {
		return err
	}
	list, err := parse(args[0], text)
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := client.Agent().Register(ctx, s); err != nil {
			return fmt.Errorf("register %s: %w", s.Name, err)
		}
		if _, err := fmt.Fprintf(c.Out, "Registered %s.\n", term.Clean(s.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Register) read(path string) ([]byte, error) {
	in := c.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is too large to describe an instance", path)
	}
	return text, nil
}

// parse takes the API's form, told by its key "Name", or the configuration's.
func parse(name string, text []byte) ([]api.ServiceRegistration, error) {
	var probe map[string]json.RawMessage
	if json.Unmarshal(text, &probe) == nil && probe["Name"] != nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		var one api.ServiceRegistration
		if err := dec.Decode(&one); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return []api.ServiceRegistration{one}, nil
	}
	if name == "-" {
		name = "stdin"
	}
	services, err := config.ParseServices(name, text)
	if err != nil {
		return nil, err
	}
	var out []api.ServiceRegistration
	for _, s := range services {
		weight := s.Weight
		r := api.ServiceRegistration{ID: s.ID, Name: s.Name, Address: s.Address, Port: s.Port, Weight: &weight, Backup: s.Backup, Tags: s.Tags,
			Protocol: s.Protocol, SendProxy: s.SendProxy, MaxConnections: s.MaxConnections, SlowStart: api.Duration(s.SlowStart)}
		for _, check := range s.Checks {
			r.Checks = append(r.Checks, registration(check))
		}
		out = append(out, r)
	}
	return out, nil
}

func registration(check config.Check) api.ServiceCheck {
	if check.TTL > 0 {
		return api.ServiceCheck{TTL: api.Duration(check.TTL)}
	}
	return api.ServiceCheck{
		HTTP: check.HTTP, TCP: check.TCP, Interval: api.Duration(check.Interval), Timeout: api.Duration(check.Timeout),
		Method: check.Method, Host: check.Host, Scheme: check.Scheme, Healthy: check.Status, Warning: check.Warning,
		Contains: check.Contains, BodyLimit: check.BodyLimit, Rise: check.Rise, Fall: check.Fall,
	}
}
