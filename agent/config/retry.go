package config

import (
	"slices"
	"strconv"
	"time"
)

// RetryFile is the block "retry" of a route.
type RetryFile struct {
	Attempts *int      `opt:"attempts"`
	On       *[]string `opt:"on"`
	Within   *Duration `opt:"within"`
	Body     *Size     `opt:"body"`
}

// Retry says when a request is tried again, and bounds the tries.
type Retry struct {
	Attempts   int // instances that get the request, the first included
	Connect    bool
	Idempotent bool
	Keyed      bool  // what carries an Idempotency-Key may be repeated too
	Statuses   []int // answers that lead to another try of what may be repeated
	Within     time.Duration
	Body       int64 // of a body, kept to be sent again
}

// What a route may ask for in on beside statuses.
const (
	onConnect    = "connect"
	onIdempotent = "idempotent"
	onKeyed      = "keyed"
)

func defaultRetry() *RetryFile {
	return &RetryFile{
		Attempts: ptr(3), On: ptr([]string{onConnect, onIdempotent}),
		Within: ptr(Duration(5 * time.Second)), Body: ptr(Size(64 << 10)),
	}
}

func (f *RetryFile) runtime(c *checker, at string) Retry {
	c.between(at+".attempts", *f.Attempts, 1, 10)
	c.durationBetween(at+".within", *f.Within, 10*time.Millisecond, 10*time.Minute)
	c.sizeBetween(at+".body", *f.Body, 0, 16<<20)
	r := Retry{
		Attempts:   *f.Attempts,
		Connect:    slices.Contains(*f.On, onConnect),
		Idempotent: slices.Contains(*f.On, onIdempotent),
		Keyed:      slices.Contains(*f.On, onKeyed),
		Within:     time.Duration(*f.Within),
		Body:       int64(*f.Body),
	}
	for _, on := range *f.On {
		if on == onConnect || on == onIdempotent || on == onKeyed {
			continue
		}
		status, err := strconv.Atoi(on)
		if err != nil || len(on) != 3 || status < 400 || status > 599 {
			c.fail(at+".on", on, `must be "connect", "idempotent", "keyed" or an error status, as in "503"`)
			continue
		}
		if !slices.Contains(r.Statuses, status) {
			r.Statuses = append(r.Statuses, status)
		}
	}
	if len(r.Statuses) > 0 && !r.Idempotent && !r.Keyed {
		c.fail(at+".on", strconv.Itoa(r.Statuses[0]), `needs "idempotent" or "keyed" beside it, which say what may be repeated after an instance has answered`)
	}
	return r
}
