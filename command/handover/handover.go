package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rondel-project/rondel/api"
	"github.com/rondel-project/rondel/command/term"
)

// tellEvery bounds how often progress is told.
const tellEvery = time.Second

// poll is how long one question for a change of the ring waits.
const poll = 2 * time.Second

// ErrGone means that the member is not in the ring.
var ErrGone = errors.New("it is not in the ring any more")

// Watcher follows the ring until something is so.
type Watcher struct {
	Client *api.Client
	Err    io.Writer // for progress
}

// Until reads the ring until done says so or returns an error, and tells each
// state that progress has words for. The time of ctx being over is told as
// context.DeadlineExceeded, with the last ring that was seen.
func (w Watcher) Until(ctx context.Context, progress func(*api.RingInfo) string, done func(*api.RingInfo) (bool, error)) (last *api.RingInfo, err error) {
	var told string
	var at time.Time
	wait := api.Wait{}
	for {
		info, index, err := w.Client.Ring().Get(ctx, wait)
		if ctx.Err() != nil {
			return last, ctx.Err()
		}
		if err != nil {
			return last, fmt.Errorf("read the ring: %w", err)
		}
		last, wait = info, api.Wait{Index: index, Max: poll}
		ok, err := done(info)
		if err != nil || ok {
			return last, err
		}
		if text := progress(info); text != told && time.Since(at) >= tellEvery {
			told, at = text, time.Now()
			fmt.Fprintln(w.Err, term.Clean(text))
		}
	}
}

// Find returns a member's place in the ring, or nil.
func Find(info *api.RingInfo, name string) *api.RingMember {
	if info == nil {
		return nil
	}
	for i := range info.Members {
		if info.Members[i].Name == name {
			return &info.Members[i]
		}
	}
	return nil
}

// Left says what a member has yet to hand over.
func Left(info *api.RingInfo, name string) string {
	m := Find(info, name)
	if m == nil {
		return name + " is not in the ring any more"
	}
	return fmt.Sprintf("%s serves %s and %s, and holds copies of %s for others", name, count(m.Owned, "slot"), count(m.Sessions, "session"), count(m.Copies, "slot"))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
