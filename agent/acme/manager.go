package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/crypto/acme"
)

const (
	askTimeout   = 30 * time.Second // one request to the authority
	orderTimeout = 3 * time.Minute  // all of one order
	tellTimeout  = 2 * time.Second  // what other agents have to say

	waitNone = time.Second // until others are asked again, without a certificate
	waitDue  = time.Minute // the same with one
	// patience is how long an agent without a certificate waits for the one whose
	// turn it is.
	patience = 2 * time.Minute
)

// pauses are the times between failed orders. Authorities count failures by the
// hour.
func pauses() []time.Duration {
	return []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour}
}

// Options are what a manager is made of.
type Options struct {
	Hosts     []string // lower case
	Directory string   // of the authority
	Email     string   // where the authority may write to; "" for nowhere
	Roots     *x509.CertPool
	Dir       string // where account and certificates are kept; "" in memory
	HTTP, TLS bool   // which kinds of proof can be given: the ports that are open

	// Changed is told all certificates there are, when they have changed.
	Changed func([]*tls.Certificate)
	Others  Others // nil: this agent is alone
	Log     hclog.Logger
}

// Others are the other agents of the cluster. The methods may wait until ctx
// ends.
type Others interface {
	// Proof asks what another agent would answer to the authority.
	Proof(ctx context.Context, kind Kind, name string) ([]byte, bool)
	// Tell tells all others what is to be answered to the authority, before it asks.
	Tell(ctx context.Context, kind Kind, name string, answer []byte)
	// Bundles returns the certificates for a host that others have, with keys.
	Bundles(ctx context.Context, host string) [][]byte
	// Turn reports whether this agent is the one to order for all. While it does
	// not know yet who the others are, it is not.
	Turn() bool
}

// Manager keeps a certificate for each host. Its methods may be called from any
// goroutine.
type Manager struct {
	opt    Options
	log    hclog.Logger
	dir    string
	http   *http.Client
	hosts  []*host
	proofs proofs

	client     *acme.Client // used by Run alone
	registered bool

	mu      sync.Mutex // guards bundles
	bundles map[string]*bundle
}

// host is how far one host's certificate is; used by Run alone.
type host struct {
	name     string
	next     time.Time // when it is to be looked at again
	since    time.Time // without a certificate, or with one that is due
	failures int
}

// New returns a manager that has what an earlier one left in the folder. It
// starts nothing.
func New(opt Options) (*Manager, error) {
	m := &Manager{
		opt: opt, log: opt.Log.Named("acme"), bundles: map[string]*bundle{},
		proofs: proofs{known: map[question][]byte{}, told: map[question]told{}, slot: make(chan struct{}, atOnce)},
		http: &http.Client{Timeout: askTimeout, Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConns: 2,
			TLSClientConfig: &tls.Config{RootCAs: opt.Roots, MinVersion: tls.VersionTLS12},
		}},
	}
	for _, name := range opt.Hosts {
		m.hosts = append(m.hosts, &host{name: name})
	}
	key, err := m.open()
	if err != nil {
		return nil, err
	}
	m.client = &acme.Client{Key: key, HTTPClient: m.http, DirectoryURL: opt.Directory, UserAgent: "rondel"}
	m.tell()
	return m, nil
}

// Run keeps the certificates until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	defer m.http.CloseIdleConnections()
	for {
		next := time.Now().Add(waitDue)
		for _, h := range m.hosts {
			if now := time.Now(); !now.Before(h.next) {
				m.tend(ctx, h, now)
			}
			if h.next.Before(next) {
				next = h.next
			}
		}
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// tend sees to one host.
func (m *Manager) tend(ctx context.Context, h *host, now time.Time) {
	has := m.has(h.name)
	if has != nil && now.Before(has.due()) {
		h.next, h.since, h.failures = has.due(), time.Time{}, 0
		return
	}
	if h.since.IsZero() {
		h.since = now
	}
	if m.opt.Others != nil {
		if m.adopt(ctx, h.name, now) {
			h.next = now // to see when that one is due
			return
		}
		if !m.opt.Others.Turn() && !late(has, h.since, now) {
			h.next = now.Add(waitNone)
			if has != nil {
				h.next = now.Add(waitDue)
			}
			return
		}
	}
	b, err := m.obtain(ctx, h)
	if err == nil {
		err = m.keep(h.name, b)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		pause := m.pause(h.failures)
		h.failures++
		h.next = time.Now().Add(pause)
		m.log.Error("no certificate from the authority; it must reach this host's name at port 80 (HTTP-01) or 443 (TLS-ALPN-01) of an agent",
			"host", h.name, "directory", m.opt.Directory, "again_in", pause, "error", err)
		return
	}
	m.log.Info("certificate obtained", "host", h.name, "expires", b.cert.Leaf.NotAfter)
	h.next = time.Now()
}

// pause returns how long the authority is left alone after so many failures
// and one more. The other kind of proof is offered at once.
func (m *Manager) pause(failures int) time.Duration {
	kinds := 1
	if m.opt.HTTP && m.opt.TLS {
		kinds = 2
	}
	if (failures+1)%kinds != 0 {
		return 0
	}
	return pauses()[min(failures/kinds, len(pauses())-1)]
}

// late reports whether the agent whose turn it is has had its time.
func late(has *bundle, since, now time.Time) bool {
	if has == nil {
		return now.Sub(since) > patience
	}
	return now.After(has.overdue())
}

// adopt takes over a better certificate that another agent has.
func (m *Manager) adopt(ctx context.Context, name string, now time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	best := m.has(name)
	found := false
	for _, text := range m.opt.Others.Bundles(ctx, name) {
		b, err := parseBundle(text, name)
		if err != nil {
			m.log.Warn("another agent's certificate is of no use", "host", name, "error", err)
			continue
		}
		if now.Before(b.due()) && (best == nil || b.cert.Leaf.NotAfter.After(best.cert.Leaf.NotAfter)) {
			best, found = b, true
		}
	}
	if !found {
		return false
	}
	if err := m.keep(name, best); err != nil {
		m.log.Error("certificate of another agent cannot be kept", "host", name, "error", err)
		return false
	}
	m.log.Info("certificate taken over from another agent", "host", name, "expires", best.cert.Leaf.NotAfter)
	return true
}

// keep puts a certificate in the place of the one before.
func (m *Manager) keep(name string, b *bundle) error {
	if err := m.save(name, b.text); err != nil {
		return err
	}
	m.mu.Lock()
	m.bundles[name] = b
	m.mu.Unlock()
	m.tell()
	return nil
}

func (m *Manager) tell() {
	m.mu.Lock()
	var all []*tls.Certificate
	for _, name := range m.opt.Hosts {
		if b := m.bundles[name]; b != nil {
			all = append(all, b.cert)
		}
	}
	m.mu.Unlock()
	m.opt.Changed(all)
}

func (m *Manager) has(name string) *bundle {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bundles[name]
}

// Bundle returns the certificate for a host with its key, for another agent.
func (m *Manager) Bundle(name string) []byte {
	if b := m.has(name); b != nil {
		return b.text
	}
	return nil
}

// Covers reports whether a certificate for the host is this manager's business.
func (m *Manager) Covers(name string) bool { return slices.Contains(m.opt.Hosts, name) }
