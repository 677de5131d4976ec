package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/rondel-project/rondel/api"
)

// How long a blocking read waits if it does not say, and at most.
const (
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute
)

// await blocks while w's index is the one in ?index, at most for ?wait. It sets
// X-Rondel-Index. An index that w has never reached is of another agent or an
// earlier run: the answer comes at once, with the right one.
func (s *Server) await(out http.ResponseWriter, r *request, w Watcher) error {
	index, changed := w.Watch()
	if r.query.Has("index") {
		want, err := strconv.ParseUint(r.query.Get("index"), 10, 64)
		if err != nil {
			return badRequest("?index=%q: want the number of an X-Rondel-Index", r.query.Get("index"))
		}
		wait := defaultWait
		if r.query.Has("wait") {
			d, err := api.ParseDuration(r.query.Get("wait"))
			if err != nil {
				return failure(http.StatusBadRequest, api.CodeBadDuration, "?wait: %s", err)
			}
			wait = min(d.Std(), maxWait)
		}
		if index == want && want > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-changed:
			case <-timer.C:
			case <-r.Context().Done():
			case <-s.stopping.Done():
			}
			index, _ = w.Watch()
		}
	}
	out.Header().Set("X-Rondel-Index", strconv.FormatUint(index, 10))
	return nil
}
