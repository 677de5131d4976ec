package proxy

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Validate returns every problem of the configuration at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	names := map[string]bool{}
	matches := map[string]string{}
	for i := range c.Routes {
		r := &c.Routes[i]
		if names[r.Name] {
			bad("route %q is there twice", r.Name)
		}
		names[r.Name] = true
		m := strings.ToLower(r.Host) + "|" + strings.TrimSuffix(r.Path, "/")
		if other, ok := matches[m]; ok {
			bad("routes %q and %q match the same host and path", other, r.Name)
		}
		matches[m] = r.Name
		r.validate(func(format string, args ...any) {
			bad("route %q: %w", r.Name, fmt.Errorf(format, args...))
		})
	}
	if c.Limits.RequestHead < 1<<10 || c.Limits.ResponseHead < 1<<10 {
		bad("head limits must be at least 1 KiB")
	}
	if !validStreams(c.Limits.Streams) {
		bad("streams must be between 1 and %d", maxStreams)
	}
	t := &c.Timeouts
	if min(t.Handshake, t.Header, t.Idle, t.Body, t.Connect, t.Response, t.Send, t.Upstream, t.Tunnel, t.Continue) <= 0 || t.Drain < 0 {
		bad("timeouts must be positive")
	}
	if l := &c.Limits; min(l.RequestBody, l.MinRate) < 0 || min(l.Connections, l.PerClient, l.IdlePerHost) < 0 {
		bad("limits must not be negative")
	}
	if c.PeerHeader == PeerHeaderRequired && len(c.PeerHeaderFrom) == 0 {
		bad("a PROXY protocol header is required, and nobody may send one")
	}
	return errors.Join(errs...)
}

func (r *Route) validate(bad func(string, ...any)) {
	if r.Service == "" {
		bad("it names no service")
	}
	if r.Path != "" && r.Path[0] != '/' {
		bad("path %q does not begin with a slash", r.Path)
	}
	if rest, ok := strings.CutPrefix(r.Host, "*."); r.Host != "*" && (strings.ContainsAny(r.Host, ":/ ") || strings.Contains(rest, "*") || ok && rest == "") {
		bad("host %q is neither a name nor *.name", r.Host)
	}
	if r.Balance == Hash && r.HashOn == HashNothing {
		bad("balance by hash needs something to hash on")
	}
	switch r.HashOn {
	case HashHeader, HashQuery, HashCookie:
		if r.HashName == "" {
			bad("the thing to hash on has no name")
		}
	}
	if r.HashFallback == Hash {
		bad("the fallback of a hash cannot be a hash")
	}
	if r.HashBalance != 0 && r.HashBalance <= 100 {
		bad("a hash balance of %d percent leaves requests without an instance", r.HashBalance)
	}
	if r.Queue.Length < 0 || r.Queue.Length > 0 && r.Queue.Timeout <= 0 {
		bad("a queue needs a length of 0 or more, and a positive time")
	}
	if o := &r.Outlier; o.Failures < 0 || o.Failures > 0 && (o.For <= 0 || o.AtMost < o.For || o.Percent < 0 || o.Percent > 100) {
		bad("ejection needs positive times, the longest last, and a share of 0 to 100 percent")
	}
	if r.Retry.Attempts < 1 || r.Retry.Body < 0 || r.Retry.Within <= 0 {
		bad("retry needs at least one attempt, and a positive time")
	}
	if t := &r.Timeouts; min(t.Connect, t.Response, t.Send, t.Tunnel) < 0 || r.MaxBody < 0 {
		bad("its timeouts and limits must not be negative")
	}
	if r.RedirectTo != "" {
		place := Place{Name: "m", Address: "127.0.0.1", Port: "1"}
		base := place.base(r.RedirectTo)
		_, host, ok := strings.Cut(base, "://")
		if !ok || !strings.HasPrefix(base, "http://") && !strings.HasPrefix(base, "https://") || host == "" || strings.ContainsAny(host, "/?#@{} \\\t\r\n") {
			bad("%q is not the address of a member: a scheme and a host, with a port or without", r.RedirectTo)
		}
	}
	r.Sticky.validate(bad)
}

func (s *Sticky) validate(bad func(string, ...any)) {
	for _, name := range []string{s.Cookie, s.Learn, s.LearnPath, s.LearnQuery, s.LearnHeader} {
		if !token(name) {
			bad("%q is no name for a cookie, a parameter or a header", name)
		}
	}
	if s.learns() && (s.Cookie == "" || s.Learn == s.Cookie) {
		bad("learning from the cookie %q needs another one to be set", s.Learn)
	}
	if s.LearnHeader != strings.ToLower(s.LearnHeader) {
		bad("the header %q is not in lower case", s.LearnHeader)
	}
	switch s.SameSite {
	case "", "Lax", "Strict":
	case "None":
		if s.Secure == SecureOff {
			bad("same_site None needs the Secure attribute")
		}
	default:
		bad("same_site %q is not Lax, Strict or None", s.SameSite)
	}
	if s.Cookie == "" {
		return
	}
	if s.Path == "" || s.Path[0] != '/' || !attribute(s.Path) {
		bad("cookie path %q is not one that a cookie can have: a slash, then neither semicolons nor control characters", s.Path)
	}
	if !attribute(s.Domain) || strings.ContainsAny(s.Domain, " :/,") {
		bad("cookie domain %q is no host name", s.Domain)
	}
	if s.MaxAge < 0 || s.MaxAge > 0 && s.MaxAge < time.Second {
		bad("cookie max_age %s is less than a second", s.MaxAge)
	}
	// Browsers drop cookies of these names without a word when something is amiss.
	name := strings.ToLower(s.Cookie)
	host := strings.HasPrefix(name, "__host-")
	if (host || strings.HasPrefix(name, "__secure-")) && s.Secure != SecureOn {
		bad("a cookie named %q needs secure on", s.Cookie)
	}
	if host && (s.Path != "/" || s.Domain != "") {
		bad("a cookie named %q needs the path / and no domain", s.Cookie)
	}
}

func token(name string) bool {
	for i := range len(name) {
		b := name[i]
		if b <= ' ' || b >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, b) >= 0 {
			return false
		}
	}
	return true
}

// attribute reports whether v can be the value of a cookie's attribute.
func attribute(v string) bool {
	for i := range len(v) {
		if v[i] < ' ' || v[i] >= 0x7f || v[i] == ';' {
			return false
		}
	}
	return true
}
