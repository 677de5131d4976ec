package agent

import (
	"net/http"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/proxy"
)

// proxyConfig is the configuration as the proxy takes it. Where no route is
// configured, fallback is the service that all requests go to, "" for none.
func proxyConfig(cfg config.Runtime, fallback string) proxy.Config {
	p := proxy.DefaultConfig()
	p.Trusted = cfg.Proxy.TrustedProxies
	p.PeerHeader = map[config.ProxyProtocol]proxy.PeerHeader{
		config.ProxyProtocolOff: proxy.PeerHeaderOff, config.ProxyProtocolListed: proxy.PeerHeaderListed, config.ProxyProtocolRequired: proxy.PeerHeaderRequired,
	}[cfg.Proxy.ProxyProtocol]
	p.RedirectHTTPS, p.HTTPSPort = cfg.Proxy.RedirectHTTPS, cfg.Proxy.HTTPS.Port()
	p.PeerHeaderFrom = cfg.Proxy.ProxyProtocolFrom
	p.InstanceTLS = instanceTLS(cfg.Proxy)
	p.SessionTTL = cfg.Session.TTL
	proxyPhases(&p, cfg.Proxy)
	p.H2C, p.Limits.Streams = cfg.Proxy.H2C, cfg.Proxy.MaxStreams
	routes := cfg.Routes
	if len(routes) == 0 && fallback != "" {
		routes = []config.Route{config.DefaultRoute(fallback)}
	}
	for _, r := range routes {
		p.Routes = append(p.Routes, proxyRoute(r))
	}
	return p
}

func proxyRoute(r config.Route) proxy.Route {
	out := proxy.DefaultRoute(r.Service)
	out.Name, out.Host, out.Path = r.Name, r.Host, r.Path
	out.Balance, out.HashFallback, out.HashBalance = proxyBalance(r.Balance), proxyBalance(r.HashFallback), r.HashBalance
	out.Queue = proxy.Queue(r.Queue)
	out.Outlier = proxy.Outlier{
		Failures: r.Outlier.Failures, Statuses: r.Outlier.Statuses, For: r.Outlier.EjectFor, AtMost: r.Outlier.MaxEject, Percent: r.Outlier.MaxPercent,
	}
	out.HashOn = map[string]proxy.HashOn{
		"header": proxy.HashHeader, "query": proxy.HashQuery, "cookie": proxy.HashCookie,
		"path": proxy.HashPath, "client_ip": proxy.HashClientIP,
	}[r.HashOn.From]
	out.HashName = r.HashOn.Name
	out.Local, out.Redirect, out.RedirectTo = r.PreferLocal, r.Redirect, r.RedirectTo
	out.Sticky = proxySticky(r.Sticky)
	routePhases(&out, r)
	out.Retry = proxy.Retry{
		Attempts: r.Retry.Attempts, Connect: r.Retry.Connect, Idempotent: r.Retry.Idempotent,
		IdempotencyKey: r.Retry.Keyed, Statuses: r.Retry.Statuses, Within: r.Retry.Within, Body: int(r.Retry.Body),
	}
	return out
}

func proxySticky(s config.Sticky) proxy.Sticky {
	out := proxy.Sticky{
		Cookie: s.Cookie, Strict: s.Strict, Learn: s.Learn, LearnPath: s.LearnPath, LearnQuery: s.LearnQuery, LearnHeader: s.LearnHeader,
		HTTPOnly: s.HTTPOnly, Path: s.Path, Domain: s.Domain, MaxAge: s.MaxAge,
		SameSite: map[http.SameSite]string{
			http.SameSiteLaxMode: "Lax", http.SameSiteStrictMode: "Strict", http.SameSiteNoneMode: "None",
		}[s.SameSite],
		Secure: map[config.Secure]proxy.Secure{
			config.SecureAuto: proxy.SecureAuto, config.SecureOn: proxy.SecureOn, config.SecureOff: proxy.SecureOff,
		}[s.Secure],
	}
	if s.FollowInstance {
		out.Follow = proxy.FollowInstance
	}
	return out
}

func proxyBalance(b config.Balance) proxy.Balance {
	return map[config.Balance]proxy.Balance{
		config.RoundRobin: proxy.RoundRobin, config.WeightedRoundRobin: proxy.WeightedRoundRobin,
		config.Random: proxy.Random, config.LeastLoad: proxy.LeastLoad, config.Hash: proxy.Hash,
	}[b]
}
