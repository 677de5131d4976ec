package config

import "strings"

// RouteFile is a block "route"; its label is the route's name.
type RouteFile struct {
	Host    *string `opt:"host"`
	Path    *string `opt:"path"`
	Service *string `opt:"service"`
	Balance *string `opt:"balance"`
	HashOn  *string `opt:"hash_on"`

	HashFallback *string `opt:"hash_fallback"`
	HashBalance  *int    `opt:"hash_balance_factor"`

	Prefer *string `opt:"prefer"`
	Mode   *string `opt:"mode"`

	RedirectTo *string `opt:"redirect_to"`

	Sticky *StickyFile `opt:"sticky"`
	Retry  *RetryFile  `opt:"retry"`

	Queue   *QueueFile   `opt:"queue"`
	Outlier *OutlierFile `opt:"outlier"`

	Timeouts *RouteTimeoutsFile `opt:"timeouts"`
	Limits   *RouteLimitsFile   `opt:"limits"`
}

// Route says which requests go to which service, and how.
type Route struct {
	Name    string
	Host    string // lower case; "" any, "*.example.com" any name below
	Path    string // prefix in escaped form, starts with a slash
	Service string
	Balance Balance
	HashOn  HashKey

	HashFallback Balance // for requests without the key
	HashBalance  int     // percent of its part of the requests that an instance gets at most; 0: no bound

	PreferLocal bool
	Redirect    bool
	RedirectTo  string // where a member's proxy is reached; "": http, its address and port
	Sticky      Sticky
	Retry       Retry

	Queue   Queue
	Outlier Outlier

	Timeouts RouteTimeouts
	Limits   RouteLimits
}

// HashKey is what Hash balances on.
type HashKey struct {
	From string // header, query, cookie, path, client_ip; "" when Balance is not Hash
	Name string // of the header, parameter or cookie
}

func defaultRoute(name string) *RouteFile {
	return &RouteFile{
		Host: ptr(""), Path: ptr("/"), Service: ptr(name),
		Balance: ptr(string(RoundRobin)), HashOn: ptr(""),
		HashFallback: ptr(string(RoundRobin)), HashBalance: ptr(125), Prefer: ptr("any"), Mode: ptr("proxy"), RedirectTo: ptr(""),
		Sticky: defaultSticky(),
		Retry:  defaultRetry(), Queue: defaultQueue(), Outlier: defaultOutlier(),
		Timeouts: defaultRouteTimeouts(), Limits: defaultRouteLimits(),
	}
}

// DefaultRoute is the one that a lone service gets when no route is configured:
// it matches everything.
func DefaultRoute(service string) Route {
	return defaultRoute(service).runtime(&checker{}, service)
}

func (f *RouteFile) runtime(c *checker, name string) Route {
	at := "route." + name
	if !plainName(name) {
		c.fail(at, name, "a route's name must be 1 to 64 letters, digits, dots, hyphens or underscores")
	}
	if *f.Host != "" && !hostName(strings.TrimPrefix(*f.Host, "*.")) {
		c.fail(at+".host", *f.Host, `must be a host name without scheme or port, as in "shop.example.com" or "*.example.com"`)
	}
	if !strings.HasPrefix(*f.Path, "/") || strings.ContainsAny(*f.Path, "?# \t\r\n") {
		c.fail(at+".path", *f.Path, `must start with a slash and have no "?", "#" or space, as in "/shop"`)
	}
	if !plainName(*f.Service) {
		c.fail(at+".service", *f.Service, "must be the name of a service")
	}
	c.oneOf(at+".balance", *f.Balance, string(RoundRobin), string(WeightedRoundRobin), string(Random), string(LeastLoad), string(Hash))
	c.oneOf(at+".prefer", *f.Prefer, "any", "local")
	c.oneOf(at+".mode", *f.Mode, "proxy", "redirect")
	f.checkRedirect(c, at)
	return Route{
		Name: name, Host: strings.ToLower(*f.Host), Path: *f.Path, Service: *f.Service,
		Balance: Balance(*f.Balance), HashOn: f.hashKey(c, at),
		HashFallback: f.hashFallback(c, at), HashBalance: f.hashBalance(c, at),
		PreferLocal: *f.Prefer == "local", Redirect: *f.Mode == "redirect", RedirectTo: *f.RedirectTo,
		Sticky: f.Sticky.runtime(c, at+".sticky"), Retry: f.Retry.runtime(c, at+".retry"),
		Queue: f.Queue.runtime(c, at+".queue"), Outlier: f.Outlier.runtime(c, at+".outlier"),
		Timeouts: f.Timeouts.runtime(c, at+".timeouts"), Limits: f.Limits.runtime(c, at+".limits"),
	}
}

func (f *RouteFile) hashKey(c *checker, at string) HashKey {
	const forms = "must be header:NAME, query:NAME, cookie:NAME, path or client_ip"
	text := *f.HashOn
	if text == "" {
		if *f.Balance == string(Hash) {
			c.fail(at+".hash_on", text, `is needed with balance = "hash"; it `+forms)
		}
		return HashKey{}
	}
	if *f.Balance != string(Hash) {
		c.fail(at+".hash_on", text, `has no effect unless balance = "hash"`)
	}
	from, name, named := strings.Cut(text, ":")
	switch from {
	case "path", "client_ip":
		if named {
			c.fail(at+".hash_on", text, from+" takes no name")
		}
	case "header", "cookie":
		if !token(name) {
			c.fail(at+".hash_on", text, forms)
		}
	case "query":
		if name == "" {
			c.fail(at+".hash_on", text, forms)
		}
	default:
		c.fail(at+".hash_on", text, forms)
	}
	return HashKey{From: from, Name: name}
}
