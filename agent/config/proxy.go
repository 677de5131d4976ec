package config

import "net/netip"

// ProxyFile is the section "proxy".
type ProxyFile struct {
	HTTP              *string   `opt:"http"`
	HTTPS             *string   `opt:"https"`
	CertFile          *string   `opt:"cert_file"`
	KeyFile           *string   `opt:"key_file"`
	TrustedProxies    *[]string `opt:"trusted_proxies"`
	ProxyProtocol     *string   `opt:"proxy_protocol"`
	ProxyProtocolFrom *[]string `opt:"proxy_protocol_from"`
	TLSMinVersion     *string   `opt:"tls_min_version"`
	RedirectHTTPS     *bool     `opt:"redirect_https"`

	Certificates []*CertificateFile `opt:"certificate"`
	ACME         *ACMEFile          `opt:"acme"`

	Timeouts  *ProxyTimeoutsFile `opt:"timeouts"`
	Limits    *ProxyLimitsFile   `opt:"limits"`
	AccessLog *AccessLogFile     `opt:"access_log"`

	H2C        *bool `opt:"h2c"`
	MaxStreams *int  `opt:"max_streams"`

	InstanceCAFile     *string `opt:"instance_ca_file"`
	InstanceServerName *string `opt:"instance_server_name"`
	InstanceSkipVerify *bool   `opt:"instance_skip_verify"`
}

// ProxyProtocol says which connections begin with a header of the PROXY
// protocol.
type ProxyProtocol string

// ProxyProtocolListed means those from the listed networks, beside clients from
// elsewhere; ProxyProtocolRequired means that nobody else is served.
const (
	ProxyProtocolOff      ProxyProtocol = "off"
	ProxyProtocolListed   ProxyProtocol = "listed"
	ProxyProtocolRequired ProxyProtocol = "required"
)

// Proxy is where the proxy listens and whom it believes. A listener that is not
// valid is off.
type Proxy struct {
	HTTP              netip.AddrPort `opt:"proxy.http,reload"`
	HTTPS             netip.AddrPort `opt:"proxy.https,reload"`
	CertFile          string         `opt:"proxy.cert_file,reload"`
	KeyFile           string         `opt:"proxy.key_file,reload"`
	TrustedProxies    []netip.Prefix `opt:"proxy.trusted_proxies,reload"`
	ProxyProtocol     ProxyProtocol  `opt:"proxy.proxy_protocol,reload"`
	ProxyProtocolFrom []netip.Prefix `opt:"proxy.proxy_protocol_from,reload"`
	TLSMinVersion     TLSVersion     `opt:"proxy.tls_min_version,reload"`
	RedirectHTTPS     bool           `opt:"proxy.redirect_https,reload"`
	Certificates      []Certificate  `opt:"proxy.certificate,reload"`
	ACME              ACME

	Timeouts  ProxyTimeouts
	Limits    ProxyLimits
	AccessLog AccessLog

	H2C        bool `opt:"proxy.h2c,reload"` // HTTP/2 without TLS is spoken too
	MaxStreams int  `opt:"proxy.max_streams,reload"`

	InstanceCA         Authorities `opt:"proxy.instance_ca_file,reload"`
	InstanceServerName string      `opt:"proxy.instance_server_name,reload"` // empty: the instance's address
	InstanceSkipVerify bool        `opt:"proxy.instance_skip_verify,reload"`
}

func defaultProxy() *ProxyFile {
	return &ProxyFile{
		HTTP: ptr(":8780"), HTTPS: ptr(""), CertFile: ptr(""), KeyFile: ptr(""), TrustedProxies: ptr([]string{}),
		ProxyProtocol: ptr(string(ProxyProtocolOff)), ProxyProtocolFrom: ptr([]string{}),
		TLSMinVersion: ptr(string(TLS12)), RedirectHTTPS: ptr(false), Certificates: nil, ACME: defaultACME(),
		Timeouts: defaultProxyTimeouts(), Limits: defaultProxyLimits(), AccessLog: defaultAccessLog(),
		H2C: ptr(false), MaxStreams: ptr(250),
		InstanceCAFile: ptr(""), InstanceServerName: ptr(""), InstanceSkipVerify: ptr(false),
	}
}

func (f *ProxyFile) runtime(c *checker, bind netip.Addr) Proxy {
	p := Proxy{
		HTTP:     c.listener("proxy.http", *f.HTTP, bind),
		HTTPS:    c.listener("proxy.https", *f.HTTPS, bind),
		CertFile: *f.CertFile,
		KeyFile:  *f.KeyFile,

		TrustedProxies:    c.networks("proxy.trusted_proxies", *f.TrustedProxies),
		ProxyProtocol:     ProxyProtocol(*f.ProxyProtocol),
		ProxyProtocolFrom: c.networks("proxy.proxy_protocol_from", *f.ProxyProtocolFrom),
		TLSMinVersion:     TLSVersion(*f.TLSMinVersion),
		RedirectHTTPS:     *f.RedirectHTTPS,
		Certificates:      f.certificates(c),
		ACME:              f.ACME.runtime(c, *f.HTTPS != ""),

		Timeouts:  f.Timeouts.runtime(c),
		Limits:    f.Limits.runtime(c),
		AccessLog: f.AccessLog.runtime(c),

		H2C:        *f.H2C,
		MaxStreams: *f.MaxStreams,

		InstanceCA:         f.authorities(c),
		InstanceServerName: *f.InstanceServerName,
		InstanceSkipVerify: *f.InstanceSkipVerify,
	}
	if p.RedirectHTTPS && *f.HTTPS == "" {
		c.fail("proxy.redirect_https", true, "needs proxy.https, where clients are sent to")
	}
	f.checkProxyProtocol(c)
	f.checkHTTP2(c)
	f.checkServerName(c)
	return p
}

func (f *ProxyFile) checkProxyProtocol(c *checker) {
	c.oneOf("proxy.proxy_protocol", *f.ProxyProtocol, string(ProxyProtocolOff), string(ProxyProtocolListed), string(ProxyProtocolRequired))
	some := len(*f.ProxyProtocolFrom) > 0
	switch ProxyProtocol(*f.ProxyProtocol) {
	case ProxyProtocolOff:
		if some {
			c.fail("proxy.proxy_protocol_from", "", `has no effect while proxy_protocol is "off"; set that to "listed" or "required"`)
		}
	case ProxyProtocolListed, ProxyProtocolRequired:
		if !some {
			c.fail("proxy.proxy_protocol", *f.ProxyProtocol, "needs proxy_protocol_from: the addresses of the balancers whose word on the client's address is taken")
		}
	}
}

// networks reads a list of networks.
func (c *checker) networks(option string, texts []string) (out []netip.Prefix) {
	for _, text := range texts {
		prefix, err := parsePrefix(text)
		if err != nil {
			c.fail(option, text, `must be an address or a network in CIDR form, as in "10.0.0.0/8" or "2001:db8::/32"`)
			continue
		}
		out = append(out, prefix)
	}
	return out
}

// parsePrefix takes a lone address as a network of one, and a v4 network
// written in v6 form as v4, which is how the proxy sees its clients.
func parsePrefix(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), nil
}
