package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command streams a log.
type Command struct {
	flags.Verb
	level string
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{level: "info", Verb: flags.NewVerb(streams, flags.Usage{
		Name:     "monitor",
		Text:     "Shows the agent's log as it is written, until it is interrupted or the agent stops. The level holds for what is shown here; what the agent itself logs stays as configured.",
		Examples: []string{"rondel monitor", "rondel monitor -log-level=debug"},
	})}
	c.String(&c.level, "log-level", "LEVEL", "trace, debug, info, warn or error")
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Show an agent's log as it is written" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) run(ctx context.Context, client *api.Client, _ []string) error {
	switch c.level {
	case "trace", "debug", "info", "warn", "error":
	default:
		return flags.Misuse("option -log-level is trace, debug, info, warn or error, not %q", c.level)
	}
	log, err := client.Agent().Monitor(ctx, c.level)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	_, err = io.Copy(c.Out, log)
	if ctx.Err() != nil {
		return nil // interrupted, which is how this verb ends
	}
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the agent closed its log; it has probably stopped")
	}
	return fmt.Errorf("read the log: %w", err)
}
