package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rondel-project/rondel/api"
)

// guard refuses what a web page of someone else's makes a browser send: by a
// name that was rebound to the agent's address, or from another origin.
type guard struct {
	names []string // lower case: the node's, and those of api.hosts
}

func newGuard(node string, hosts []string) guard {
	g := guard{names: []string{"localhost"}}
	for _, h := range append([]string{node}, hosts...) {
		if h != "" {
			g.names = append(g.names, strings.TrimSuffix(strings.ToLower(h), "."))
		}
	}
	return g
}

// check returns nil for a request that may drive the agent.
func (g guard) check(r *http.Request) *api.Error {
	// Browsers always send a Host; HTTP/1.0 tools may not.
	if r.Host != "" && !g.own(r.Host) {
		return failure(http.StatusForbidden, api.CodeForeignHost,
			"the Host header %q is not this agent's: use an IP address, localhost or the node name, or add the name to api.hosts", r.Host)
	}
	for _, origin := range r.Header["Origin"] {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !g.own(u.Host) {
			return failure(http.StatusForbidden, api.CodeForeignHost,
				"requests from web pages of the origin %q are refused; add its host to api.hosts if it is yours", origin)
		}
	}
	// A page served from some IP address has an origin that is an IP literal;
	// the browser tells that it is another site.
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return failure(http.StatusForbidden, api.CodeForeignHost, "changes requested by web pages of other sites are refused")
	}
	return nil
}

// own takes host or host:port.
func (g guard) own(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.Contains(g.names, strings.TrimSuffix(strings.ToLower(host), "."))
}
