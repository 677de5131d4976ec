package check

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Status is a check's verdict.
type Status string

// The verdicts. Warning lets traffic through.
const (
	Passing  Status = "passing"
	Warning  Status = "warning"
	Critical Status = "critical"
)

// Defaults of a Spec.
const (
	DefaultInterval  = 2 * time.Second
	DefaultTimeout   = time.Second
	DefaultBodyLimit = 64 << 10

	minInterval  = 10 * time.Millisecond
	maxThreshold = 100
)

// Spec is one check of an instance. Exactly one of HTTP, TCP and TTL is set.
type Spec struct {
	HTTP string        // path at the instance's address, or a whole URL
	TCP  string        // address; without a host, the instance's
	TTL  time.Duration // critical when no heart-beat came for so long

	Interval time.Duration
	Timeout  time.Duration // below Interval

	Method string // of HTTP; GET when empty
	Host   string // Host header; the instance's address when empty
	Scheme string // of a path: http or https, without verifying the certificate; as Protocol has it when empty

	// Preface is what connections to the instance begin with, ahead of TLS.
	// Normalize drops it where the check goes elsewhere.
	Preface string

	// Protocol is what the instance speaks: a path of it is probed so. It
	// counts for nothing in a check that goes elsewhere.
	Protocol string

	Status  Statuses // healthy answers; 200 to 399 when empty
	Warning Statuses // answers that are a warning; 429 when empty, unless it is healthy

	// Contains must be in the first BodyLimit bytes of the answer.
	Contains  string
	BodyLimit int64

	Rise int // successes in a row until passing; 0: 1
	Fall int // failures in a row until critical; 0: 1
}

// Normalize fills in defaults and checks the rest against the instance's
// address. It names every fault it finds.
func (s Spec) Normalize(instance string) (Spec, error) {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	kinds := 0
	for _, on := range []bool{s.HTTP != "", s.TCP != "", s.TTL != 0} {
		if on {
			kinds++
		}
	}
	if kinds != 1 {
		fail("set exactly one of HTTP, TCP and TTL")
	}
	setDefault(&s.Interval, DefaultInterval)
	setDefault(&s.Timeout, min(DefaultTimeout, s.Interval/2))
	setDefault(&s.BodyLimit, DefaultBodyLimit)
	setDefault(&s.Rise, 1)
	setDefault(&s.Fall, 1)
	setDefault(&s.Status, "200-399")
	setDefault(&s.Warning, "429")
	setDefault(&s.Method, http.MethodGet)
	if s.TTL < 0 || s.TTL > 0 && s.TTL < minInterval {
		fail("TTL %v: must be %v or more", s.TTL, minInterval)
	}
	if s.Interval < minInterval {
		fail("Interval %v: must be %v or more", s.Interval, minInterval)
	}
	if s.Timeout <= 0 || s.Timeout >= s.Interval {
		fail("Timeout %v: must be above 0 and below Interval (%v)", s.Timeout, s.Interval)
	}
	if s.Rise < 1 || s.Fall < 1 || s.Rise > maxThreshold || s.Fall > maxThreshold {
		fail("Rise and Fall: must be 1 to %d", maxThreshold)
	}
	if err := s.Status.Check(); err != nil {
		fail("Status %w", err)
	}
	if err := s.Warning.Check(); err != nil {
		fail("Warning %w", err)
	}
	if s.Scheme != "" && s.Scheme != "http" && s.Scheme != "https" {
		fail("Scheme %q: must be http or https", s.Scheme)
	}
	if !methodName(s.Method) {
		fail("Method %q: not a method", s.Method)
	}
	if s.BodyLimit < 0 {
		fail("BodyLimit %d: must not be negative", s.BodyLimit)
	}
	if strings.ContainsAny(s.Host, " \t\r\n/") {
		fail("Host %q: not a host name", s.Host)
	}
	if s.HTTP != "" {
		u, err := s.url(instance)
		if err != nil {
			fail("HTTP %q: %w", s.HTTP, err)
		} else {
			s.HTTP = u
		}
	}
	if s.TCP != "" {
		a, err := s.tcpAddr(instance)
		if err != nil {
			fail("TCP %q: %w", s.TCP, err)
		} else {
			s.TCP = a
		}
	}
	if s.target() != instance {
		s.Preface, s.Protocol = "", ""
	}
	return s, errors.Join(errs...)
}

// target is the address that a normalized check connects to.
func (s Spec) target() string {
	u, err := url.Parse(s.HTTP)
	if s.HTTP == "" || err != nil {
		return s.TCP
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (s Spec) url(instance string) (string, error) {
	text := s.HTTP
	if strings.HasPrefix(text, "/") {
		scheme := "http://"
		if s.Scheme == "https" || s.Scheme == "" && (s.Protocol == "https" || s.Protocol == "h2") {
			scheme = "https://"
		}
		text = scheme + instance + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("must be a path that starts with /, or an http or https URL")
	}
	return u.String(), nil
}

func methodName(s string) bool {
	for _, c := range s {
		if (c < 'A' || c > 'Z') && c != '-' {
			return false
		}
	}
	return s != ""
}

func (s Spec) tcpAddr(instance string) (string, error) {
	text := s.TCP
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", errors.New("must be host:port or :port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("the port must be 1 to 65535")
	}
	if host == "" {
		if host, _, err = net.SplitHostPort(instance); err != nil {
			return "", err
		}
	}
	return net.JoinHostPort(host, port), nil
}
