package consensus

import (
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// quiet is the logger that Raft gets. Raft repeats itself several times a
// second about a server that is gone; here each message about each server is
// told once, and then once a minute with the number of times it was held back.
// What Raft thinks worth Info is Debug: the agent says itself who leads.
type quiet struct {
	hclog.Logger
	said *said
}

const sayAgain = time.Minute

type said struct {
	mu   sync.Mutex // guards last
	last map[string]*saying
}

type saying struct {
	at   time.Time
	held int
}

func newQuiet(log hclog.Logger) *quiet {
	return &quiet{log, &said{last: make(map[string]*saying)}}
}

// due reports whether to say it now, and how often it was held back.
func (s *said) due(now time.Time, msg string, args []any) (int, bool) {
	key := msg
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "peer" || args[i] == "id" {
			key += fmt.Sprint(" ", args[i+1])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.last[key]
	if was != nil && now.Sub(was.at) < sayAgain {
		was.held++
		return 0, false
	}
	for k, v := range s.last {
		if now.Sub(v.at) >= 2*sayAgain {
			delete(s.last, k)
		}
	}
	s.last[key] = &saying{at: now}
	if was == nil {
		return 0, true
	}
	return was.held, true
}

// routine reports whether a warning of Raft's tells only what every healthy
// cluster goes through when it starts or a server comes or goes. The agent says
// in its own words who leads and who is here.
func routine(msg string) bool {
	switch msg {
	case "heartbeat timeout reached, starting election",
		"no known peers, aborting election",
		"failed to get previous log",
		"appendEntries rejected, sending older logs",
		"failed to accept connection",
		"failed to decode incoming command":
		return true
	}
	return false
}

func (q *quiet) say(level hclog.Level, msg string, args []any) {
	if routine(msg) {
		q.Debug(msg, args...)
		return
	}
	held, ok := q.said.due(time.Now(), msg, args)
	if !ok {
		return
	}
	if held > 0 {
		args = append(args[:len(args):len(args)], "repeated", held)
	}
	q.Logger.Log(level, msg, args...)
}

// Info implements hclog.Logger.
func (q *quiet) Info(msg string, args ...any) { q.Debug(msg, args...) }

// Warn implements hclog.Logger.
func (q *quiet) Warn(msg string, args ...any) { q.say(hclog.Warn, msg, args) }

// Error implements hclog.Logger. What Raft calls an error is mostly a server
// that does not answer; errors of the disk are told by Run.
func (q *quiet) Error(msg string, args ...any) { q.say(hclog.Warn, msg, args) }

// With implements hclog.Logger.
func (q *quiet) With(args ...any) hclog.Logger { return &quiet{q.Logger.With(args...), q.said} }

// Named implements hclog.Logger.
func (q *quiet) Named(name string) hclog.Logger { return &quiet{q.Logger.Named(name), q.said} }

// ResetNamed implements hclog.Logger.
func (q *quiet) ResetNamed(name string) hclog.Logger {
	return &quiet{q.Logger.ResetNamed(name), q.said}
}
