package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	lookEvery = time.Second
	// warnAhead is how long before its end a certificate is warned of, each day.
	warnAhead = 14 * 24 * time.Hour
	warnEvery = 24 * time.Hour
)

// Store is all certificates of a proxy. Its methods may be called from any
// goroutine.
type Store struct {
	log hclog.Logger

	index atomic.Pointer[index]

	mu      sync.Mutex // guards the rest
	files   []*loaded
	brought []*loaded // of which there are no files
}

// New returns a store without a certificate. It starts nothing.
func New(log hclog.Logger) *Store {
	s := &Store{log: log.Named("certificates")}
	s.index.Store(newIndex(nil))
	return s
}

// Prepare reads pairs of files, changed or not, and returns what puts them in
// force instead of those before. The first is shown to clients that ask for a
// name that none has. The error names every pair that is of no use.
func (s *Store) Prepare(pairs []Pair) (commit func(), err error) {
	var errs []error
	next := make([]*loaded, 0, len(pairs))
	for _, p := range pairs {
		l := &loaded{Pair: p}
		if l.read(true); l.trouble != nil {
			errs = append(errs, l.trouble)
		}
		next = append(next, l)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range next {
			if at := slices.IndexFunc(s.files, func(o *loaded) bool { return o.Pair == l.Pair }); at >= 0 {
				l.warned = s.files[at].warned
			}
		}
		s.files = next
		s.publishLocked()
	}, nil
}

// Brought replaces the certificates that are not from files the operator named.
// They come after those that are. The source says who brought them.
func (s *Store) Brought(source string, list []*tls.Certificate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brought = nil
	for _, c := range list {
		e := newEntry(c, source)
		if len(e.names) > 0 {
			e.source += " " + e.names[0]
		}
		s.brought = append(s.brought, &loaded{entry: e})
	}
	s.publishLocked()
}

func (s *Store) publishLocked() {
	var all []*entry
	for _, l := range slices.Concat(s.files, s.brought) {
		all = append(all, l.entry)
	}
	s.index.Store(newIndex(all))
}

// Get implements the GetCertificate of tls.Config.
func (s *Store) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.index.Load().find(hello)
}

// Run looks after the files until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		s.Look(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look takes over what has changed in the files, and warns of what expires.
func (s *Store) Look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := false
	for _, l := range s.files {
		changed = s.lookLocked(l) || changed
		s.warnLocked(l.entry, &l.warned, now)
	}
	for _, e := range s.brought {
		s.warnLocked(e.entry, &e.warned, now)
	}
	if changed {
		s.publishLocked()
	}
}

// lookLocked reads a pair again if its files have changed. Certificate and key
// are seldom replaced at the same instant: that something is wrong is told only
// when it still is at the next look.
func (s *Store) lookLocked(l *loaded) (changed bool) {
	before := l.trouble
	changed = l.read(false)
	switch {
	case l.trouble == nil && changed:
		s.log.Info("certificate renewed", "cert_file", l.Cert, "names", l.names, "expires", l.cert.Leaf.NotAfter)
		l.warned = time.Time{}
	case l.trouble == nil:
	case before == nil || before.Error() != l.trouble.Error():
		l.said = false
	case !l.said:
		l.said = true
		s.log.Error("certificate cannot be renewed, the one before is shown; put a certificate and the key that belongs to it in place, no reload is needed",
			"cert_file", l.Cert, "key_file", l.Key, "expires", l.cert.Leaf.NotAfter, "error", l.trouble)
	}
	return changed
}

func (s *Store) warnLocked(e *entry, warned *time.Time, now time.Time) {
	left := e.cert.Leaf.NotAfter.Sub(now)
	if left > warnAhead || now.Sub(*warned) < warnEvery {
		return
	}
	*warned = now
	if left <= 0 {
		s.log.Error("certificate has expired, clients refuse it; renew it", "source", e.source, "names", e.names, "expired", e.cert.Leaf.NotAfter)
		return
	}
	s.log.Warn("certificate expires soon; renew it", "source", e.source, "names", e.names, "expires", e.cert.Leaf.NotAfter)
}

// Status is what is known of one certificate.
type Status struct {
	Source  string   // the file it is from, or who brought it
	Names   []string // that it is valid for
	Expires time.Time
	Problem string // why the files as they are now are not shown; "" for none
}

// Status returns all certificates, the default first.
func (s *Store) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Status
	for _, l := range slices.Concat(s.files, s.brought) {
		st := Status{Source: l.source, Names: l.names, Expires: l.cert.Leaf.NotAfter}
		if l.trouble != nil {
			st.Problem = l.trouble.Error()
		}
		out = append(out, st)
	}
	return out
}
