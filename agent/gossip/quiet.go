package gossip

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A fault that lasts would fill the log. The first of a kind is printed, what
// follows is counted, and once a minute one line sums up.
const (
	quietFor  = time.Minute
	maxQuiets = 256
)

// quiet prints the first message of each kind. Safe for concurrent use.
type quiet struct {
	log hclog.Logger
	now func() time.Time

	mu    sync.Mutex
	kinds map[string]*quietKind
}

type quietKind struct {
	last    time.Time
	more    int
	example []any
}

func newQuiet(log hclog.Logger) *quiet {
	return &quiet{log: log, now: time.Now, kinds: map[string]*quietKind{}}
}

// say prints a message unless one with the same key came in the last minute:
// a fault that goes on is printed once, and then told by the summaries.
func (q *quiet) say(level hclog.Level, key, msg string, pairs ...any) {
	now := q.now()
	q.mu.Lock()
	k := q.kinds[key]
	again := k != nil && now.Sub(k.last) < quietFor
	if k == nil {
		if len(q.kinds) >= maxQuiets {
			q.dropOldestLocked()
		}
		k = &quietKind{}
		q.kinds[key] = k
	}
	k.last = now
	if again {
		k.more++
		k.example = append([]any{"message", msg}, pairs...)
	}
	q.mu.Unlock()
	if !again {
		q.log.Log(level, msg, pairs...)
	}
}

// settle forgets a kind, so that its next message is printed.
func (q *quiet) settle(key string) {
	q.mu.Lock()
	delete(q.kinds, key)
	q.mu.Unlock()
}

func (q *quiet) dropOldestLocked() {
	oldest := ""
	for key, k := range q.kinds {
		if oldest == "" || k.last.Before(q.kinds[oldest].last) {
			oldest = key
		}
	}
	delete(q.kinds, oldest)
}

// summarize prints one line about what was held back, if anything was.
func (q *quiet) summarize() {
	now := q.now()
	q.mu.Lock()
	total, kinds := 0, 0
	var most *quietKind
	for key, k := range q.kinds {
		switch {
		case k.more > 0:
			total += k.more
			kinds++
			if most == nil || k.more > most.more {
				c := *k
				most = &c
			}
			k.more = 0
		case now.Sub(k.last) >= quietFor:
			delete(q.kinds, key)
		}
	}
	q.mu.Unlock()
	if most != nil {
		q.log.Warn("messages were repeated", append([]any{"times", total, "kinds", kinds, "most", most.more}, most.example...)...)
	}
}

// libraryLog takes memberlist's log lines. It decides nothing by them but how
// they are printed.
type libraryLog struct{ q *quiet }

// levels of the library's prefixes. Its infos are events which this package
// tells in its own words.
var libraryLevels = []struct {
	prefix string
	level  hclog.Level
}{
	{"[ERR] ", hclog.Warn}, {"[ERROR] ", hclog.Warn}, {"[WARN] ", hclog.Warn},
	{"[INFO] ", hclog.Debug}, {"[DEBUG] ", hclog.Trace},
}

// Write takes one line.
func (l libraryLog) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	level := hclog.Debug
	for _, v := range libraryLevels {
		if rest, ok := strings.CutPrefix(line, v.prefix); ok {
			line, level = rest, v.level
			break
		}
	}
	line = strings.TrimPrefix(line, "memberlist: ")
	if name, ok := between(line, "Was able to connect to ", " over TCP but UDP probes failed"); ok {
		l.q.say(hclog.Warn, "udp "+name, "member answers over tcp but not over udp: is udp blocked between the two", "member", name)
		return len(p), nil
	}
	if level < hclog.Warn {
		l.q.log.Log(level, "memberlist", "detail", line)
		return len(p), nil
	}
	l.q.say(level, kindOf(line), "memberlist", "detail", line)
	return len(p), nil
}

func between(s, before, after string) (string, bool) {
	s, ok := strings.CutPrefix(s, before)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(cutFrom(s, after), after)
}

// cutFrom drops what follows the first sep, keeping sep.
func cutFrom(s, sep string) string {
	if i := strings.Index(s, sep); i >= 0 {
		return s[:i+len(sep)]
	}
	return s
}

// kindOf takes out of a line what differs between two of a kind: the port from
// which a peer dialled, counts and durations. Addresses stay.
func kindOf(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c >= '0' && c <= '9' && (i == 0 || line[i-1] == ':' || line[i-1] == ' ' || line[i-1] == '(') {
			j := i
			for j < len(line) && line[j] >= '0' && line[j] <= '9' {
				j++
			}
			if j < len(line) && line[j] == '.' && j+1 < len(line) && line[j+1] >= '0' && line[j+1] <= '9' {
				b.WriteByte(c) // part of an address or a fraction
				continue
			}
			b.WriteByte('#')
			i = j - 1
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
