package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// D-12: every attribute is as configured, and taking the cookie away names the
// same Path and Domain.
func TestCookie_attributes(t *testing.T) {
	t.Parallel()
	base := DefaultRoute("shop").Sticky
	for name, tc := range map[string]struct {
		change func(*Sticky)
		https  bool
		set    string // what follows the value
		gone   string
	}{
		"default":       {func(*Sticky) {}, false, "; Path=/; HttpOnly; SameSite=Lax", "; Path=/; HttpOnly; SameSite=Lax"},
		"https":         {func(*Sticky) {}, true, "; Path=/; HttpOnly; SameSite=Lax; Secure", "; Path=/; HttpOnly; SameSite=Lax; Secure"},
		"secure on":     {func(s *Sticky) { s.Secure = SecureOn }, false, "; Path=/; HttpOnly; SameSite=Lax; Secure", "; Path=/; HttpOnly; SameSite=Lax; Secure"},
		"secure off":    {func(s *Sticky) { s.Secure = SecureOff }, true, "; Path=/; HttpOnly; SameSite=Lax", "; Path=/; HttpOnly; SameSite=Lax"},
		"for scripts":   {func(s *Sticky) { s.HTTPOnly = false }, false, "; Path=/; SameSite=Lax", "; Path=/; SameSite=Lax"},
		"strict":        {func(s *Sticky) { s.SameSite = "Strict" }, false, "; Path=/; HttpOnly; SameSite=Strict", "; Path=/; HttpOnly; SameSite=Strict"},
		"none":          {func(s *Sticky) { s.SameSite = "None" }, false, "; Path=/; HttpOnly; SameSite=None; Secure", "; Path=/; HttpOnly; SameSite=None; Secure"},
		"no same site":  {func(s *Sticky) { s.SameSite = "" }, false, "; Path=/; HttpOnly", "; Path=/; HttpOnly"},
		"path":          {func(s *Sticky) { s.Path = "/shop" }, false, "; Path=/shop; HttpOnly; SameSite=Lax", "; Path=/shop; HttpOnly; SameSite=Lax"},
		"domain":        {func(s *Sticky) { s.Domain = "example.com" }, false, "; Path=/; Domain=example.com; HttpOnly; SameSite=Lax", "; Path=/; Domain=example.com; HttpOnly; SameSite=Lax"},
		"max age":       {func(s *Sticky) { s.MaxAge = 90 * time.Minute }, false, "; Max-Age=5400; Path=/; HttpOnly; SameSite=Lax", "; Path=/; HttpOnly; SameSite=Lax"},
		"part a second": {func(s *Sticky) { s.MaxAge = 1900 * time.Millisecond }, false, "; Max-Age=1; Path=/; HttpOnly; SameSite=Lax", "; Path=/; HttpOnly; SameSite=Lax"},
		"host prefix": {func(s *Sticky) { s.Cookie, s.Secure = "__Host-lb", SecureOn }, false,
			"; Path=/; HttpOnly; SameSite=Lax; Secure", "; Path=/; HttpOnly; SameSite=Lax; Secure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := base
			tc.change(&s)
			if got, want := string(appendCookie(nil, &s, "id", "tag", tc.https)), "Set-Cookie: "+s.Cookie+"=id.tag"+tc.set+"\r\n"; got != want {
				t.Errorf("set %q, want %q", got, want)
			}
			want := "Set-Cookie: " + s.Cookie + "=; Max-Age=0; Expires=Thu, 01 Jan 1970 00:00:00 GMT" + tc.gone + "\r\n"
			if got := string(appendExpired(nil, &s, tc.https)); got != want {
				t.Errorf("taken away by %q, want %q", got, want)
			}
			cfg := DefaultConfig()
			rt := DefaultRoute("shop")
			rt.Sticky = s
			cfg.Routes = []Route{rt}
			if err := cfg.Validate(); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

func TestCookie_whatBrowsersWouldDropIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Sticky)
		want   string // "": accepted
	}{
		"plain":                    {func(s *Sticky) { s.Cookie = "lb" }, ""},
		"dotted":                   {func(s *Sticky) { s.Cookie = "a.b" }, ""},
		"no sessions":              {func(s *Sticky) { *s = Sticky{} }, ""},
		"space in name":            {func(s *Sticky) { s.Cookie = "a b" }, "no name"},
		"equals in name":           {func(s *Sticky) { s.Cookie = "a=b" }, "no name"},
		"umlaut in name":           {func(s *Sticky) { s.Cookie = "ä" }, "no name"},
		"none without secure":      {func(s *Sticky) { s.SameSite, s.Secure = "None", SecureOff }, "needs the Secure"},
		"unknown same site":        {func(s *Sticky) { s.SameSite = "lax" }, "same_site"},
		"host without secure":      {func(s *Sticky) { s.Cookie = "__Host-lb" }, "needs secure on"},
		"host, secure by chance":   {func(s *Sticky) { s.Cookie, s.Secure = "__Host-lb", SecureAuto }, "needs secure on"},
		"host below a path":        {func(s *Sticky) { s.Cookie, s.Secure, s.Path = "__Host-lb", SecureOn, "/a" }, "the path /"},
		"host with domain":         {func(s *Sticky) { s.Cookie, s.Secure, s.Domain = "__Host-lb", SecureOn, "example.com" }, "no domain"},
		"host in another spelling": {func(s *Sticky) { s.Cookie, s.Secure, s.Path = "__hOST-lb", SecureOn, "/a" }, "the path /"},
		"secure prefix":            {func(s *Sticky) { s.Cookie = "__Secure-lb" }, "needs secure on"},
		"secure prefix, path":      {func(s *Sticky) { s.Cookie, s.Secure, s.Path = "__Secure-lb", SecureOn, "/a" }, ""},
		"no path":                  {func(s *Sticky) { s.Path = "" }, "path"},
		"path without slash":       {func(s *Sticky) { s.Path = "a" }, "path"},
		"path that goes on":        {func(s *Sticky) { s.Path = "/a; Domain=example.org" }, "path"},
		"line end in the path":     {func(s *Sticky) { s.Path = "/a\r\nX: y" }, "path"},
		"domain that goes on":      {func(s *Sticky) { s.Domain = "a;b" }, "domain"},
		"domain with port":         {func(s *Sticky) { s.Domain = "example.com:80" }, "domain"},
		"line end in the domain":   {func(s *Sticky) { s.Domain = "a\nb" }, "domain"},
		"learn":                    {func(s *Sticky) { s.Learn = "JSESSIONID" }, ""},
		"learn from its own":       {func(s *Sticky) { s.Learn = s.Cookie }, "another one"},
		"learn from no name":       {func(s *Sticky) { s.Learn = "a;b" }, "no name"},
		"negative age":             {func(s *Sticky) { s.MaxAge = -time.Second }, "max_age"},
		"age of no second":         {func(s *Sticky) { s.MaxAge = time.Millisecond }, "max_age"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := DefaultRoute("shop")
			tc.change(&rt.Sticky)
			cfg := DefaultConfig()
			cfg.Routes = []Route{rt}
			switch err := cfg.Validate(); {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want something about %q", err, tc.want)
			}
		})
	}
}

// The application ends a session: the browser must find the cookie that it is
// to forget.
func TestCookie_dropNamesPathAndDomain(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", raw(nil, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nRondel-Session: drop\r\n\r\nok"))
	cfg := DefaultConfig()
	rt := DefaultRoute("shop")
	rt.Sticky.Path, rt.Sticky.Domain, rt.Sticky.MaxAge = "/shop", "example.com", time.Hour
	cfg.Routes = []Route{rt}
	r := startRig(t, setup{cfg: cfg, apps: []Instance{instanceOf(a, "m1")}})
	id, _ := r.sess.Mint("m1")
	resp, _ := r.request(t, "/shop/out", "RONDEL="+id+".AAAAAAAAAAA")
	set := resp.Cookies()
	if len(set) != 1 || set[0].MaxAge != -1 || set[0].Path != "/shop" || set[0].Domain != "example.com" || set[0].Value != "" || set[0].SameSite != http.SameSiteLaxMode {
		t.Errorf("cookies %v", resp.Header["Set-Cookie"])
	}
}
