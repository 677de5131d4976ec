package config

import (
	"net/http"
	"strings"
	"time"
)

// StickyFile is the block "sticky" of a route.
type StickyFile struct {
	Cookie      *string   `opt:"cookie"`
	Follow      *string   `opt:"follow"`
	Strict      *bool     `opt:"strict"`
	Learn       *string   `opt:"learn"`
	LearnPath   *string   `opt:"learn_path"`
	LearnQuery  *string   `opt:"learn_query"`
	LearnHeader *string   `opt:"learn_header"`
	SameSite    *string   `opt:"same_site"`
	Secure      *string   `opt:"secure"`
	HTTPOnly    *bool     `opt:"http_only"`
	Path        *string   `opt:"path"`
	Domain      *string   `opt:"domain"`
	MaxAge      *Duration `opt:"max_age"`
}

// Secure says when the cookie is marked so.
type Secure string

// SecureAuto marks the cookie when the client came by https.
const (
	SecureAuto Secure = "auto"
	SecureOn   Secure = "on"
	SecureOff  Secure = "off"
)

// Sticky is how a client is kept with its session and its instance.
type Sticky struct {
	Cookie         string
	FollowInstance bool   // stay with the instance when the session's owner changes
	Strict         bool   // 503 rather than an instance that has not got the session
	Learn          string // an application's own cookie to read the session from
	LearnPath      string // the same of a parameter in the path, as ";jsessionid=…"
	LearnQuery     string // of a parameter in the query
	LearnHeader    string // of a header, in lower case
	SameSite       http.SameSite
	Secure         Secure
	HTTPOnly       bool
	Path           string
	Domain         string
	MaxAge         time.Duration // 0: the cookie ends with the browser
}

func defaultSticky() *StickyFile {
	return &StickyFile{
		Cookie: ptr("RONDEL"), Follow: ptr("owner"), Strict: ptr(false), Learn: ptr(""),
		LearnPath: ptr(""), LearnQuery: ptr(""), LearnHeader: ptr(""), SameSite: ptr("Lax"), Secure: ptr(string(SecureAuto)),
		HTTPOnly: ptr(true), Path: ptr("/"), Domain: ptr(""), MaxAge: ptr(Duration(0)),
	}
}

func (f *StickyFile) runtime(c *checker, at string) Sticky {
	if !token(*f.Cookie) {
		c.fail(at+".cookie", *f.Cookie, "must be a cookie name: one or more letters, digits or !#$%&'*+-.^_`|~")
	}
	if *f.Learn != "" && !token(*f.Learn) {
		c.fail(at+".learn", *f.Learn, "must be a cookie name: letters, digits or !#$%&'*+-.^_`|~")
	}
	if *f.Learn != "" && *f.Learn == *f.Cookie {
		c.fail(at+".learn", *f.Learn, "must differ from cookie, which is rondel's own")
	}
	f.checkCarriers(c, at)
	c.oneOf(at+".follow", *f.Follow, "owner", "instance")
	c.oneOf(at+".secure", *f.Secure, string(SecureAuto), string(SecureOn), string(SecureOff))
	if !strings.HasPrefix(*f.Path, "/") || strings.ContainsFunc(*f.Path, func(r rune) bool { return r < ' ' || r == ';' || r > '~' }) {
		c.fail(at+".path", *f.Path, "must start with a slash and have no semicolon or control character")
	}
	if *f.Domain != "" && !hostName(strings.TrimPrefix(*f.Domain, ".")) {
		c.fail(at+".domain", *f.Domain, "must be a host name")
	}
	if *f.MaxAge != 0 {
		c.durationBetween(at+".max_age", *f.MaxAge, time.Second, 400*24*time.Hour)
	}
	f.checkPrefix(c, at)
	return Sticky{
		Cookie: *f.Cookie, FollowInstance: *f.Follow == "instance", Strict: *f.Strict, Learn: *f.Learn,
		LearnPath: *f.LearnPath, LearnQuery: *f.LearnQuery, LearnHeader: strings.ToLower(*f.LearnHeader),
		SameSite: f.sameSite(c, at), Secure: Secure(*f.Secure), HTTPOnly: *f.HTTPOnly,
		Path: *f.Path, Domain: *f.Domain, MaxAge: time.Duration(*f.MaxAge),
	}
}

// checkCarriers looks at where else an application's own session id may be.
func (f *StickyFile) checkCarriers(c *checker, at string) {
	for option, name := range map[string]string{".learn_path": *f.LearnPath, ".learn_query": *f.LearnQuery} {
		if name != "" && (!token(name) || strings.Contains(name, "&")) {
			c.fail(at+option, name, "must be a parameter's name alone, as in \"jsessionid\": letters, digits or !#$%'*+-.^_`|~")
		}
	}
	header := strings.ToLower(*f.LearnHeader)
	if header != "" && !token(header) {
		c.fail(at+".learn_header", header, "must be a header's name, as in \"X-Session\"")
	}
	switch {
	case header == "cookie", header == "set-cookie":
		c.fail(at+".learn_header", *f.LearnHeader, "is no header for one value; for a cookie there is learn")
	case header == "rondel-session", header == "rondel-request-id", header == "host", header == "connection", header == "location",
		header == "transfer-encoding", header == "content-length", header == "date", strings.HasPrefix(header, "x-forwarded-"), header == "forwarded":
		c.fail(at+".learn_header", *f.LearnHeader, "has another meaning; an application's session id cannot be in it")
	}
}

func (f *StickyFile) sameSite(c *checker, at string) http.SameSite {
	switch strings.ToLower(*f.SameSite) {
	case "lax":
		return http.SameSiteLaxMode
	case "strict":
		return http.SameSiteStrictMode
	case "none":
		if *f.Secure != string(SecureOn) {
			c.fail(at+".same_site", *f.SameSite, `needs secure = "on": browsers drop the cookie otherwise`)
		}
		return http.SameSiteNoneMode
	}
	c.oneOf(at+".same_site", *f.SameSite, "Lax", "Strict", "None")
	return http.SameSiteDefaultMode
}

// checkPrefix holds names with a meaning of their own to it: a browser drops
// such a cookie without a word when an attribute is missing.
func (f *StickyFile) checkPrefix(c *checker, at string) {
	name := strings.ToLower(*f.Cookie)
	host := strings.HasPrefix(name, "__host-")
	if !host && !strings.HasPrefix(name, "__secure-") {
		return
	}
	if *f.Secure != string(SecureOn) {
		c.fail(at+".cookie", *f.Cookie, `this prefix needs secure = "on"`)
	}
	if host && (*f.Path != "/" || *f.Domain != "") {
		c.fail(at+".cookie", *f.Cookie, `this prefix needs path = "/" and no domain`)
	}
}

// token reports whether s is one in the sense of RFC 9110, which a cookie's and
// a header's name must be.
func token(s string) bool {
	for _, r := range s {
		if !asciiAlnum(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return s != ""
}
