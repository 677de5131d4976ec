package leave

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/handover"
	"github.com/rondel-project/rondel/command/term"
)

// quiet is how long a leave takes at most without a word about it.
const quiet = 500 * time.Millisecond

// Command leaves.
type Command struct {
	flags.Verb
	force bool
}

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "leave",
		Text: "Makes the agent leave the cluster for good and stop: it hands its sessions over, finishes its requests, and gives up its place on the ring and its vote. " +
			"The command returns when that is done, and shows meanwhile what is left. Where nothing could be handed over for a minute the agent stays, and the command fails.\n\n" +
			"It refuses where the cluster would lose its quorum, and for the last member. To stop an agent that will come back, send its process SIGTERM instead.",
		Examples: []string{"rondel leave", "rondel leave -http-addr=10.0.0.11:8700"},
	})}
	c.Bool(&c.force, "force", "leave even if that costs the cluster its quorum, or what could not be handed over")
	c.WithAgent()
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Leave the cluster for good, after handing over sessions" }

// Run executes the verb.
func (c *Command) Run(args []string) int { return c.Ask(args, c.run) }

func (c *Command) run(ctx context.Context, client *api.Client, _ []string) error {
	err := c.leave(ctx, client)
	if api.HasCode(err, api.CodeQuorum) && !c.force {
		return fmt.Errorf("%w; -force leaves all the same", err)
	}
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	_, err = fmt.Fprintln(c.Out, "The agent has left the cluster.")
	return err
}

// left says what keeps the agent.
func left(info *api.RingInfo, name string) string {
	if m := handover.Find(info, name); m != nil && m.Slots+m.Owned+m.Copies == 0 {
		return name + " has handed over everything, and ends the requests that are under way"
	}
	return handover.Left(info, name)
}

// leave asks the agent to leave, and tells meanwhile what it has yet to hand
// over.
func (c *Command) leave(ctx context.Context, client *api.Client) error {
	watched, done := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer done()
	watch.Go(func() {
		select { // a leave that is refused, or done at once, has no progress
		case <-watched.Done():
			return
		case <-time.After(quiet):
		}
		self, err := client.Agent().Self(watched)
		if err != nil {
			return // the leave itself tells what is wrong
		}
		name := self.Member.Name
		w := handover.Watcher{Client: client, Err: c.Err}
		_, _ = w.Until(watched, // the same here
			func(info *api.RingInfo) string { return left(info, name) },
			func(info *api.RingInfo) (bool, error) { return handover.Find(info, name) == nil, nil })
	})
	err := client.Agent().Leave(ctx, c.force)
	if ctx.Err() != nil {
		return errors.New("interrupted; the agent goes on leaving, `rondel ring` at another one shows how far it is")
	}
	return err
}
