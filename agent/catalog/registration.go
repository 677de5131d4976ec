package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Limits of a registration.
const (
	DefaultWeight = 100
	MaxWeight     = 65535
	maxNameLen    = 63
	maxIDLen      = 128
	maxTags       = 64
	maxTagLen     = 255
	maxChecks     = 32
	maxReasonLen  = 200

	maxConnections = 1_000_000
	maxSlowStart   = time.Hour
)

// ErrInvalid is in each error about a registration that cannot be accepted.
var ErrInvalid = errors.New("invalid registration")

// Duration is written with a unit: "2s". A bare number is refused.
type Duration time.Duration

// MarshalJSON writes "2s"; nothing set is "".
func (d Duration) MarshalJSON() ([]byte, error) {
	if d == 0 {
		return []byte(`""`), nil
	}
	return json.Marshal(time.Duration(d).String())
}

// UnmarshalJSON reads "2s", and says what is wrong with 2.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("duration %s: must be a string with a unit, such as \"2s\"", b)
	}
	if text == "" {
		*d = 0
		return nil
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("duration %q: must be a number with a unit, such as \"2s\"", text)
	}
	*d = Duration(v)
	return nil
}

// Check is how an instance is tested; exactly one of HTTP, TCP and TTL is set.
type Check struct {
	HTTP     string   `json:",omitempty"`
	TCP      string   `json:",omitempty"`
	TTL      Duration `json:",omitempty"`
	Interval Duration `json:",omitempty"`
	Timeout  Duration `json:",omitempty"`

	Method    string `json:",omitempty"`
	Host      string `json:",omitempty"`
	Scheme    string `json:",omitempty"`
	Status    string `json:",omitempty"`
	Warning   string `json:",omitempty"`
	Contains  string `json:",omitempty"`
	BodyLimit int64  `json:",omitempty"`

	Rise int `json:",omitempty"`
	Fall int `json:",omitempty"`
}

// Registration is what somebody says of an instance of this agent.
type Registration struct {
	ID      string // the name when empty
	Name    string
	Address string `json:",omitempty"` // the member's own when empty
	Port    int
	Weight  *int     `json:",omitempty"` // DefaultWeight when absent; 0: no new clients
	Backup  bool     `json:",omitempty"`
	Tags    []string `json:",omitempty"`

	Protocol       string   `json:",omitempty"` // see Instance
	SendProxy      string   `json:",omitempty"`
	MaxConnections int      `json:",omitempty"`
	SlowStart      Duration `json:",omitempty"`

	Checks []Check `json:",omitempty"`
}

// Normalize fills in what is absent and checks the rest; the error names every
// fault.
func (r Registration) Normalize() (Registration, error) {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.ID == "" {
		r.ID = r.Name
	}
	if err := checkWord("Name", r.Name, maxNameLen); err != nil {
		errs = append(errs, err)
	}
	if r.ID != r.Name {
		if err := checkWord("ID", r.ID, maxIDLen); err != nil {
			errs = append(errs, err)
		}
	}
	if r.Address != "" && !validHost(r.Address) {
		fail("Address %q: must be an IP address or a host name, without a port", r.Address)
	}
	if r.Port < 1 || r.Port > 65535 {
		fail("Port %d: must be 1 to 65535", r.Port)
	}
	weight := DefaultWeight
	if r.Weight != nil {
		weight = *r.Weight
	}
	r.Weight = &weight
	if weight < 0 || weight > MaxWeight {
		fail("Weight %d: must be 0 to %d", weight, MaxWeight)
	}
	if r.Protocol == "" {
		r.Protocol = HTTP1
	}
	if !slices.Contains(protocols, r.Protocol) {
		fail("Protocol %q: must be one of %s", r.Protocol, strings.Join(protocols, ", "))
	}
	if r.SendProxy != "" && r.SendProxy != "v1" && r.SendProxy != "v2" {
		fail("SendProxy %q: must be v1 or v2, or absent", r.SendProxy)
	}
	if r.SendProxy != "" && (r.Protocol == H2 || r.Protocol == H2C) {
		fail("SendProxy %q: is for http1 and https; connections of %s carry many clients", r.SendProxy, r.Protocol)
	}
	if r.MaxConnections < 0 || r.MaxConnections > maxConnections {
		fail("MaxConnections %d: must be 0, which is no limit, to %d", r.MaxConnections, maxConnections)
	}
	if r.SlowStart < 0 || time.Duration(r.SlowStart) > maxSlowStart {
		fail("SlowStart %v: must be at least 0s and at most %v", time.Duration(r.SlowStart), maxSlowStart)
	}
	if len(r.Tags) > maxTags {
		fail("Tags: %d of them, at most %d are allowed", len(r.Tags), maxTags)
	}
	for _, t := range r.Tags {
		if t == "" || len(t) > maxTagLen || strings.ContainsFunc(t, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			fail("Tag %q: must have 1 to %d characters and no control characters", t, maxTagLen)
		}
	}
	if len(r.Checks) > maxChecks {
		fail("Checks: %d of them, at most %d are allowed", len(r.Checks), maxChecks)
	}
	for i, c := range r.Checks {
		if err := c.validate(); err != nil {
			fail("Check %d: %w", i+1, err)
		}
	}
	r.Tags, r.Checks = slices.Clone(r.Tags), slices.Clone(r.Checks)
	if len(errs) > 0 {
		return r, fmt.Errorf("%w: %w", ErrInvalid, errors.Join(errs...))
	}
	return r, nil
}

func (c Check) validate() error {
	kinds := 0
	for _, on := range []bool{c.HTTP != "", c.TCP != "", c.TTL != 0} {
		if on {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errors.New("set exactly one of HTTP, TCP and TTL")
	case c.TTL < 0 || c.Interval < 0 || c.Timeout < 0:
		return errors.New("a duration is negative")
	case c.Interval > 0 && c.Timeout >= c.Interval:
		return fmt.Errorf("timeout: Timeout %v must be below Interval %v", time.Duration(c.Timeout), time.Duration(c.Interval))
	}
	return nil
}

func checkWord(what, s string, limit int) error {
	if s == "" || len(s) > limit {
		return fmt.Errorf("%s %q: must have 1 to %d characters", what, s, limit)
	}
	for _, c := range s {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':' && what == "ID"
		if !ok {
			return fmt.Errorf("%s %q: only letters, digits, '-', '_' and '.' are allowed", what, s)
		}
	}
	return nil
}

func validHost(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return !a.IsUnspecified()
	}
	if len(s) > 253 || strings.ContainsAny(s, ":/@[]%") {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f })
}

// ValidateAll checks registrations that are to stand side by side, and returns
// them normalized.
func ValidateAll(regs []Registration) ([]Registration, error) {
	var errs []error
	var out []Registration
	seen := map[string]bool{}
	for i, r := range regs {
		n, err := r.Normalize()
		if err != nil {
			errs = append(errs, fmt.Errorf("service %d (%q): %w", i+1, r.Name, err))
			continue
		}
		if seen[n.ID] {
			errs = append(errs, fmt.Errorf("service %d (%q): %w: ID %q is used twice: set an id of its own", i+1, n.Name, ErrInvalid, n.ID))
		}
		seen[n.ID] = true
		out = append(out, n)
	}
	return out, errors.Join(errs...)
}
