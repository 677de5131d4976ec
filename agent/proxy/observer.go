package proxy

import "time"

// Observer hears of the requests of one route. Its methods are called from many
// goroutines at once, while requests wait: they must not block.
type Observer interface {
	// Done tells of the end of a request d after its head had come. The status
	// is 0 where the client got no answer. An upgraded connection is done with
	// its 101: what passes through it later is no answer.
	Done(status int, d time.Duration)
	// Passed tells, at the end of a request or of a tunnel, how many bytes came
	// from the client and went to it.
	Passed(in, out int64)
	// Queued tells that a request stood in line for d.
	Queued(d time.Duration)
	// Retried tells of one more attempt to have a request answered.
	Retried()
}

// Observers has an Observer for each route. Its methods are called when the
// configuration changes, never for a request.
type Observers interface {
	// Route returns the Observer of a route. The one without a name is for
	// requests that no route matches, or that could not be read.
	Route(name string) Observer
	// Forget says that there is no such route any more. Requests that are under
	// way may still tell its Observer.
	Forget(name string)
}

// silence observes nothing.
type silence struct{}

func (silence) Done(int, time.Duration) {}
func (silence) Passed(int64, int64)     {}
func (silence) Queued(time.Duration)    {}
func (silence) Retried()                {}
func (silence) Route(string) Observer   { return silence{} }
func (silence) Forget(string)           {}
