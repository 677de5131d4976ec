package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/version"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/settings"
	"github.com/rondel-project/rondel/command/term"
)

// Agent is a built agent. Its methods may be called from any goroutine.
type Agent interface {
	// Run blocks until the agent has stopped: after Shutdown, after a leave
	// that came by the API, or by an error. Cancelling ctx stops it at once.
	Run(ctx context.Context) error

	// Shutdown finishes requests and hands sessions over, within ctx; with
	// leave the member is gone for good.
	Shutdown(ctx context.Context, leave bool) error

	// Reload takes over a configuration, of which only options that can
	// change differ from the one before. It does so as a whole or not at all.
	Reload(cfg config.Runtime) error
	// Reopen makes files anew that were moved away, as logrotate does. It does not
	// wait for that.
	Reopen()
}

// ReloadFunc reads the configuration again and hands it to Agent.Reload. The
// HTTP API calls it.
type ReloadFunc func() (changed, needsRestart []string, err error)

// Factory builds an agent. The logger is an hclog.InterceptLogger.
type Factory func(cfg config.Runtime, log hclog.Logger, reload ReloadFunc) (Agent, error)

// stopTimeout bounds the hand-over of sessions after the first signal, once
// requests have had their time to end.
const stopTimeout = 60 * time.Second

// Command runs an agent.
type Command struct {
	flags.Verb
	settings settings.Settings
	build    Factory
	signals  <-chan os.Signal // nil: those of the process
}

// New returns the verb.
func New(streams term.Streams, build Factory) *Command {
	c := &Command{build: build, Verb: flags.NewVerb(streams, flags.Usage{
		Name: "agent",
		Text: "Runs an agent: one process on each machine, which finds the others, keeps sessions with them, and sends requests to the applications beside them. It logs to stderr and runs until it is stopped.\n\n" +
			"Flags win over RONDEL_… environment variables, these over files, later files over earlier ones. `rondel validate` checks all of it.\n\n" +
			"SIGTERM and SIGINT: finish requests, hand sessions over, stop; the member will come back. A second one: stop at once. SIGHUP: read the configuration again. `rondel leave`: leave for good.",
		Examples: []string{
			"rondel agent -dev -service=shop:8080",
			"rondel agent -data-dir=/var/lib/rondel -bootstrap-expect=3 -retry-join=10.0.0.11 -retry-join=10.0.0.12",
			"rondel agent -config-dir=/etc/rondel.d",
		},
	})}
	c.settings.Declare(c.Set, true)
	return c
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Run an agent" }

// Run executes the verb.
func (c *Command) Run(args []string) int {
	if _, err := c.Parse(args); err != nil {
		return c.Exit(err)
	}
	signals := c.signals
	if signals == nil {
		ch := make(chan os.Signal, 4)
		signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer signal.Stop(ch)
		signals = ch
	}
	return c.Exit(c.run(signals))
}

func (c *Command) run(signals <-chan os.Signal) (err error) {
	loaded, err := c.settings.Load(os.Environ())
	if err != nil {
		for _, w := range loaded.Warnings {
			fmt.Fprintln(c.Err, "Warning:", term.Clean(w.Error()))
		}
		var problems config.Problems
		if errors.As(err, &problems) {
			return fmt.Errorf("the agent does not start, its configuration has to be changed:\n%w", err)
		}
		return err
	}
	cfg := loaded.Runtime
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: "rondel", Level: hclog.LevelFromString(cfg.Log.Level), JSONFormat: cfg.Log.JSON, Output: c.Err,
	})
	announce(log, loaded)

	r := &reloader{load: func() (config.Loaded, error) { return c.settings.Load(os.Environ()) }, log: log, current: cfg}
	a, err := c.build(cfg, log, r.reload)
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	r.attach(a)

	remove, err := writePidFile(cfg.Node.PidFile)
	if err != nil {
		// Run with a context that is over frees what the build has bound.
		over, cancel := context.WithCancel(context.Background())
		cancel()
		return errors.Join(fmt.Errorf("write the pid file: %w", err), ignoreCanceled(a.Run(over)))
	}
	defer remove()
	return supervise(a, r, log, signals)
}

// supervise runs the agent until it ends or is told to.
func supervise(a Agent, r *reloader, log hclog.Logger, signals <-chan os.Signal) error {
	ctx, stopNow := context.WithCancel(context.Background())
	defer stopNow()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()

	stopping := false
	stopped := make(chan error, 1)
	for {
		select {
		case err := <-ended:
			if stopping {
				err = errors.Join(ignoreCanceled(err), <-stopped)
			}
			return err
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				r.onSignal()
			case stopping:
				log.Warn("stopping at once, as a second signal asks", "signal", s.String())
				return errors.New("stopped before all was handed over")
			default:
				stopping = true
				log.Info("stopping, a second signal stops at once", "signal", s.String())
				go func() {
					ctx, cancel := context.WithTimeout(ctx, r.drain()+stopTimeout)
					defer cancel()
					stopped <- a.Shutdown(ctx, false)
				}()
			}
		}
	}
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// announce logs what the agent is going to run on.
func announce(log hclog.Logger, loaded config.Loaded) {
	log.Info("agent starts", "version", version.Get().Version, "member", loaded.Runtime.Node.Name, "advertise", loaded.Runtime.Network.Advertise.String())
	for _, w := range loaded.Warnings {
		log.Warn("configuration", "warning", w.Error())
	}
	for _, path := range loaded.Read {
		log.Info("configuration file read", "path", path)
	}
	for _, path := range loaded.Skipped {
		log.Debug("configuration file skipped, not *.hcl or *.json", "path", path)
	}
	for _, e := range loaded.Effective() {
		log.Debug("configuration option", "option", e.Option, "value", e.Value, "origin", e.Origin)
	}
}

// writePidFile returns what undoes it.
func writePidFile(path string) (remove func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return nil, err
	}
	return func() { os.Remove(path) }, nil
}
