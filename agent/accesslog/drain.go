package accesslog

import (
	"bytes"
	"time"
)

// write carries lines to their files until quit is closed, and then the rest.
func (l *Log) write(quit <-chan struct{}) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-quit:
			l.flush()
			if t := l.current.Load(); t != nil {
				t.file.close()
			}
			return
		case <-l.look:
			l.flush() // what came before belongs into the old file
			l.follow()
		case <-look.C:
			l.follow()
			l.tell()
		case <-l.wake:
			l.gather(quit)
			l.flush()
		}
	}
}

// gather waits for a moment, so that many lines share one write, unless there
// are many already.
func (l *Log) gather(quit <-chan struct{}) {
	wait := time.NewTimer(batch)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-l.wake:
	case <-quit:
	}
}

// flush writes all that waits.
func (l *Log) flush() {
	l.mu.Lock()
	retired := l.retired
	l.retired = nil
	l.mu.Unlock()
	for _, b := range retired {
		l.put(b.to, b.lines)
		if b.last {
			b.to.file.close()
		}
	}
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		to, lines := s.to, s.lines
		s.lines = l.spare[:0]
		s.mu.Unlock()
		if l.spare = lines; len(lines) > 0 {
			l.put(to, lines)
		}
		if cap(l.spare) > maxSpare {
			l.spare = nil
		}
	}
}

// put writes lines, and counts those that are not taken.
func (l *Log) put(to *target, lines []byte) {
	if len(lines) == 0 {
		return
	}
	n, err := to.file.write(lines)
	if err == nil {
		if l.failing {
			l.failing = false
			l.log.Info("access log is written again", "path", to.Path)
		}
		return
	}
	l.dropped.Add(uint64(bytes.Count(lines[n:], []byte{'\n'})))
	if !l.failing {
		l.failing = true
		l.log.Error("access log cannot be written", "path", to.Path, "error", err)
	}
}

// follow makes the file anew if it was moved away.
func (l *Log) follow() {
	t := l.current.Load()
	if t == nil || !t.file.moved() {
		l.stuck = false
		return
	}
	if err := t.file.reopen(); err != nil {
		if !l.stuck {
			l.stuck = true
			l.log.Error("access log goes on in the file that was moved", "path", t.Path, "error", err)
		}
		return
	}
	l.stuck = false
	l.log.Info("access log opened anew", "path", t.Path)
}

// tell says in the agent's log how many lines were dropped, if any were.
func (l *Log) tell() {
	if n := l.dropped.Load(); n > l.told {
		l.log.Warn("lines of the access log were dropped", "lines", n-l.told, "total", n)
		l.told = n
	}
}
