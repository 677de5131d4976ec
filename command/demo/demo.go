package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	xterm "golang.org/x/term"

	"github.com/rondel-project/rondel/command/demo/stage"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Command runs the demo.
type Command struct {
	flags.Verb
	selftest bool
	duration time.Duration
	clients  int
	dir      string
}

// The bounds of what may be asked of the self test.
const (
	minDuration = 5 * time.Second
	maxDuration = 10 * time.Minute
	maxClients  = 1000
)

// New returns the verb.
func New(streams term.Streams) *Command {
	c := &Command{duration: 20 * time.Second, clients: 50, Verb: flags.NewVerb(streams, flags.Usage{
		Name: "demo",
		Text: "Starts three agents and three instances of a small shop on this machine, each a process of its own, on 127.0.0.11 to .13 (where the system has no such addresses, on ports of 127.0.0.1). " +
			"The shop's cart is in the session that Rondel keeps. Kill any one of the processes, reload the page, and the cart is still there.\n\n" +
			"With a terminal it says what to open and what to kill, and stays up until Ctrl-C. Without one it plays that story once by itself and ends. Either way nothing is left behind: processes and data are gone at the end.\n\n" +
			"With -selftest it puts load on the shop, kills the agent that leads, an instance, and another agent, and prints what was lost. The exit code is 1 if a session or an acknowledged write was lost, or one was applied twice.",
		Examples: []string{"rondel demo", "rondel demo -selftest", "rondel demo -selftest -format=json"},
	})}
	c.Bool(&c.selftest, "selftest", "put load on it, kill processes, and print what was lost")
	c.Func("duration", "DURATION", "how long the self test's load lasts (default 20s)", false, c.setDuration)
	c.Int(&c.clients, "clients", "N", "how many clients the self test has, each with a session")
	c.String(&c.dir, "dir", "DIR", "keep data and logs there (default: a temporary directory, removed at the end)")
	c.WithFormat()
	return c
}

func (c *Command) setDuration(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < minDuration || d > maxDuration {
		return flags.Misuse("option -duration is between %s and %s, as in 20s, not %q", minDuration, maxDuration, text)
	}
	c.duration = d
	return nil
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "See it work: three agents and a shop on this machine" }

// Run executes the verb.
func (c *Command) Run(args []string) int {
	if len(args) > 0 && args[0] == "shop" {
		return runShop(c.Streams, args[1:])
	}
	return c.Execute(args, c.run)
}

// errStopped means that a signal came before the end.
var errStopped = errors.New("stopped before the end")

func (c *Command) run(ctx context.Context, _ []string) (err error) {
	switch {
	case c.clients < 1 || c.clients > maxClients:
		return flags.Misuse("option -clients is between 1 and %d, not %d", maxClients, c.clients)
	case !c.selftest && (c.JSON() || c.Given("duration") || c.Given("clients")):
		return flags.Misuse("options -format, -duration and -clients belong to -selftest")
	}
	// A terminal that closes is a wish to stop, too.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()

	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program to start it again: %w", err)
	}
	ended := make(chan *stage.Process, 16)
	s, err := stage.New(stage.Options{Program: program, Dir: c.dir, OnEnd: func(p *stage.Process) { ended <- p }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	start := time.Now()
	fmt.Fprintln(c.Err, "Starting three agents and three shops...")
	if err := s.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return errStopped
		}
		return fmt.Errorf("start the demo: %w", err)
	}
	ready := time.Since(start)
	switch {
	case c.selftest:
		return c.test(ctx, s)
	case terminal(c.Out):
		return c.stay(ctx, s, ended, ready)
	}
	return c.tell(ctx, s, ready)
}

func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && xterm.IsTerminal(int(f.Fd()))
}
