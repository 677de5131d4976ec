package flags

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/term"
)

// Verb is what commands have in common: options, streams, exit codes. It is
// embedded in a command, which adds Synopsis and Run.
type Verb struct {
	*Set
	term.Streams

	format string
	agent  api.Config
}

// NewVerb returns a verb that needs no agent.
func NewVerb(streams term.Streams, u Usage) Verb {
	return Verb{Set: New(u), Streams: streams}
}

// WithFormat declares -format. The verb must be at its final address.
func (v *Verb) WithFormat() {
	v.format = "table"
	v.Func("format", "table|json", "table for people, json for scripts (default table)", false, func(text string) error {
		if text != "table" && text != "json" {
			return Misuse("option -format is table or json, not %q", text)
		}
		v.format = text
		return nil
	})
}

// WithAgent declares the options for the connection to an agent; environment
// variables give their defaults. The verb must be at its final address.
func (v *Verb) WithAgent() {
	v.agent = api.DefaultConfig()
	text := func(p *string, name, shape, usage string) {
		v.Func(name, shape, usage, false, func(s string) error { *p = s; return nil })
		v.Set.agent = append(v.Set.agent, name)
	}
	text(&v.agent.Address, "http-addr", "ADDRESS", "the agent's HTTP API: host:port, http://…, https://… or unix://… (environment: "+api.EnvAddress+", default "+api.DefaultAddress+")")
	text(&v.agent.Token, "token", "TOKEN", "API token (environment: "+api.EnvToken+", which ps does not show)")
	text(&v.agent.CAFile, "ca-file", "FILE", "PEM certificates to check the agent's by (environment: "+api.EnvCACert+")")
	text(&v.agent.ClientCert, "client-cert", "FILE", "PEM certificate to show to the agent (environment: "+api.EnvClientCert+")")
	text(&v.agent.ClientKey, "client-key", "FILE", "its PEM key (environment: "+api.EnvClientKey+")")
}

// JSON reports whether -format=json was given.
func (v *Verb) JSON() bool { return v.format == "json" }

// Execute parses the command line, runs do and returns the exit code. An
// interrupt ends the context, a second one the process.
func (v *Verb) Execute(args []string, do func(ctx context.Context, args []string) error) int {
	rest, err := v.Parse(args)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop)
		err = do(ctx, rest)
	}
	return v.Exit(err)
}

// Exit writes err to the right stream and returns the exit code for it.
func (v *Verb) Exit(err error) int {
	var usage *UsageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrHelp):
		fmt.Fprintln(v.Out, v.Help())
		return 0
	case errors.As(err, &usage):
		term.Fail(v.Err, err)
		fmt.Fprintf(v.Err, "Usage: %s\nTry `rondel %s -h`.\n", v.usage.line(), v.usage.Name)
		return 2
	}
	term.Fail(v.Err, err)
	return 1
}

// Ask is Execute for a verb that talks to an agent.
func (v *Verb) Ask(args []string, do func(ctx context.Context, c *api.Client, args []string) error) int {
	return v.Execute(args, func(ctx context.Context, rest []string) error {
		c, err := api.NewClient(v.agent)
		if errors.Is(err, api.ErrAddress) {
			return Misuse("%v", err)
		}
		if err != nil {
			return err
		}
		defer c.Close()
		err = do(ctx, c, rest)
		if api.IsUnreachable(err) {
			return fmt.Errorf("%w; is an agent running there? -http-addr or %s names another", err, api.EnvAddress)
		}
		return err
	})
}

// Show writes value as JSON with -format=json, else the table.
func (v *Verb) Show(value any, table func(w io.Writer) error) error {
	if v.JSON() {
		return term.WriteJSON(v.Out, value)
	}
	return table(v.Out)
}
