package config

import (
	"net/url"
	"strings"
)

// checkRedirect looks at where a route sends its clients.
func (f *RouteFile) checkRedirect(c *checker, at string) {
	to := *f.RedirectTo
	if *f.Mode != "redirect" {
		if to != "" {
			c.fail(at+".redirect_to", to, `has no effect unless mode = "redirect"`)
		}
		return
	}
	const form = `must be a scheme and a host, as in "https://{member}.example.com": {member}, {address} and {port} stand for the member's`
	plain := strings.NewReplacer("{member}", "m", "{address}", "127.0.0.1", "{port}", "1").Replace(to)
	u, err := url.Parse(plain)
	switch {
	case to == "":
		u = &url.URL{Scheme: "http"}
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" ||
		strings.ContainsAny(plain, "{}?#"):
		c.fail(at+".redirect_to", to, form)
		return
	case !strings.Contains(to, "{member}") && !strings.Contains(to, "{address}") && !strings.Contains(to, "{port}"):
		c.fail(at+".redirect_to", to, "is the same for all members: it needs {member}, {address} or {port}")
	}
	if *f.Sticky.Secure == string(SecureOn) && u.Scheme != "https" {
		c.fail(at+".redirect_to", to, `must be https, since the cookie is only sent there (sticky.secure = "on")`)
	}
	if d := strings.TrimPrefix(*f.Sticky.Domain, "."); d != "" && u.Hostname() != d && !strings.HasSuffix(u.Hostname(), "."+d) {
		c.fail(at+".redirect_to", to, "must be in the cookie's domain (sticky.domain), or browsers refuse the cookie")
	}
}

// checkRedirects reports routes whose clients would be sent from https to http
// and back without end, or to a port that speaks the other one. Members tell the
// port of http where they have one, else that of https.
func checkRedirects(c *checker, routes []Route, p Proxy) {
	for _, r := range routes {
		if !r.Redirect {
			continue
		}
		at, https := "route."+r.Name+".redirect_to", strings.HasPrefix(r.RedirectTo, "https://")
		port := r.RedirectTo == "" || strings.Contains(r.RedirectTo, "{port}")
		switch {
		case p.RedirectHTTPS && !https:
			c.fail(at, r.RedirectTo, "must be https, since members send every client there (proxy.redirect_https)")
		case port && https && p.HTTP.IsValid():
			c.fail(at, r.RedirectTo, `{port} is that of proxy.http, which speaks no https: write the port of proxy.https instead, as in "https://{address}:8443"`)
		case port && !https && !p.HTTP.IsValid() && p.HTTPS.IsValid():
			c.fail(at, r.RedirectTo, `{port} is that of proxy.https, since proxy.http is off: it must begin with https, as in "https://{address}:{port}"`)
		}
	}
}
