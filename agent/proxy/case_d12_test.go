package proxy

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// setLines returns the Set-Cookie lines of a raw head as they came.
func setLines(head string) (lines []string) {
	for _, line := range strings.Split(head, "\r\n") {
		if strings.HasPrefix(strings.ToLower(line), "set-cookie:") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestCase_D12_attributesInRawBytes(t *testing.T) {
	t.Parallel()
	const httpsOf = "X-Forwarded-Proto: https\r\n"
	for name, tc := range map[string]struct {
		sticky  func(*Sticky)
		trusted bool
		more    string
		want    string // after the value
	}{
		"plain":                        {nil, false, "", "; Path=/; HttpOnly; SameSite=Lax"},
		"https, says anybody":          {nil, false, httpsOf, "; Path=/; HttpOnly; SameSite=Lax"},
		"https, says a trusted proxy":  {nil, true, httpsOf, "; Path=/; HttpOnly; SameSite=Lax; Secure"},
		"http, says a trusted proxy":   {nil, true, "X-Forwarded-Proto: http\r\n", "; Path=/; HttpOnly; SameSite=Lax"},
		"a trusted proxy says nothing": {nil, true, "", "; Path=/; HttpOnly; SameSite=Lax"},
		"on":                           {func(s *Sticky) { s.Secure = SecureOn }, false, "", "; Path=/; HttpOnly; SameSite=Lax; Secure"},
		"off":                          {func(s *Sticky) { s.Secure = SecureOff }, true, httpsOf, "; Path=/; HttpOnly; SameSite=Lax"},
		"none":                         {func(s *Sticky) { s.SameSite = "None" }, false, "", "; Path=/; HttpOnly; SameSite=None; Secure"},
		"for scripts":                  {func(s *Sticky) { s.HTTPOnly = false }, false, "", "; Path=/; SameSite=Lax"},
		"path, domain, age":            {func(s *Sticky) { s.Path, s.Domain, s.MaxAge = "/s", "example.com", time.Hour }, false, "", "; Max-Age=3600; Path=/s; Domain=example.com; HttpOnly; SameSite=Lax"},
		"lb":                           {func(s *Sticky) { s.Cookie = "lb" }, false, "", "; Path=/; HttpOnly; SameSite=Lax"},
		"a.b":                          {func(s *Sticky) { s.Cookie = "a.b" }, false, "", "; Path=/; HttpOnly; SameSite=Lax"},
		"!#$%&'*+-.^_`|~":              {func(s *Sticky) { s.Cookie = "!#$%&'*+-.^_`|~" }, false, "", "; Path=/; HttpOnly; SameSite=Lax"},
		"__Host-lb":                    {func(s *Sticky) { s.Cookie, s.Secure = "__Host-lb", SecureOn }, false, "", "; Path=/; HttpOnly; SameSite=Lax; Secure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", echo("a1"))
			cfg := routed(func(r *Route) {
				if tc.sticky != nil {
					tc.sticky(&r.Sticky)
				}
			})
			if tc.trusted {
				cfg.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
			r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
			_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n"+tc.more+"\r\n")
			lines := setLines(rawHead(t, br))
			cookie := cfg.Routes[0].Sticky.Cookie
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "Set-Cookie: "+cookie+"=v1~") {
				t.Fatalf("%q", lines)
			}
			value, rest, _ := strings.Cut(strings.TrimPrefix(lines[0], "Set-Cookie: "), ";")
			if ";"+rest != tc.want {
				t.Errorf("%q, want %q", ";"+rest, tc.want)
			}
			// Only when it is needed: not to who has it, whatever else he has.
			for _, header := range []string{"Cookie: " + value, "cookie: a=b;" + value + " ; c=d", "Cookie: a=b\r\nCookie: " + value} {
				_, br = r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n"+tc.more+header+"\r\n\r\n")
				if lines := setLines(rawHead(t, br)); len(lines) != 0 {
					t.Errorf("to %q: %q", header, lines)
				}
			}
		})
	}
}
