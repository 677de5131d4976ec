package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/rondel-project/rondel/command/demo/stage"
	"github.com/rondel-project/rondel/command/term"
)

// stay shows what there is and keeps it up until it is told to stop.
func (c *Command) stay(ctx context.Context, s *stage.Stage, ended <-chan *stage.Process, ready time.Duration) error {
	if err := describe(c.Out, s, ready); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(c.Err, "\nStopping; nothing is left behind.")
			return nil
		case p := <-ended:
			sayEnded(c.Out, s, p)
		}
	}
}

func describe(w io.Writer, s *stage.Stage, ready time.Duration) error {
	fmt.Fprintf(w, "Three agents and three shops are up, after %s.\n\n", round(ready))
	fmt.Fprintf(w, "Open this in a browser:\n\n    %s\n\n", s.Front.URL())
	fmt.Fprint(w, "It leads to the first agent that is up, as the name or balancer in front of your own agents\nwould. Stay with it: a browser keeps cookies for each address, so each agent's own proxy is\nanother shop to it.\n\n")
	t := term.NewTable("Machine", "Proxy", "API", "Agent's process", "Shop's process")
	shops := s.Shops()
	for i, a := range s.Agents() {
		t.Row(a.Name, "http://"+a.Place.ProxyAddress()+"/", a.Place.API(), a.PID, shops[i].PID)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	first, last := s.Agents()[0], s.Agents()[len(s.Agents())-1]
	_, err := fmt.Fprintf(w, `
What to do:

  1. Put things into the cart. The page says which machine answered and who owns the session.
  2. Kill the process that served you, or any one agent:

         kill -9 %d        # %s
         kill -9 %d        # %s

  3. Reload. Another machine answers, and the cart is as it was.
  4. Look at the cluster:

         %s members -http-addr=%s
         %s ring -http-addr=%s

Logs and data are in %s until the end.
Ctrl-C ends all of it.

`, shops[0].PID, shops[0].Name, first.PID, first.Name, s.Program(), last.Place.API(), s.Program(), last.Place.API(), s.Dir())
	return err
}

// sayEnded tells that a process is gone, and what that means.
func sayEnded(w io.Writer, s *stage.Stage, p *stage.Process) {
	fmt.Fprintf(w, "%s  %s (process %d) has ended: %s.\n", time.Now().Format(time.TimeOnly), p.Name, p.PID, p.Fate())
	agents, shops := alive(s.Agents()), alive(s.Shops())
	switch {
	case agents == 0 || shops == 0:
		fmt.Fprintln(w, "          None of its kind is left: the shop is closed.")
	case p.Kind == stage.Agent && agents == 1:
		fmt.Fprintln(w, "          One agent is left. It serves on, but two of three are gone: it cannot change the ring.")
	default:
		fmt.Fprintln(w, "          Reload the page: the cart goes on, on another machine.")
	}
	fmt.Fprintf(w, "          To bring it back, in another terminal: %s\n\n", p.Command())
}

func alive(all []*stage.Process) (n int) {
	for _, p := range all {
		if p.Alive() {
			n++
		}
	}
	return n
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
