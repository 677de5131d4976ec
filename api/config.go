package api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// DefaultAddress is where an agent's HTTP API listens by default.
const DefaultAddress = "http://127.0.0.1:8700"

// The environment variables that [DefaultConfig] reads.
const (
	EnvAddress    = "RONDEL_HTTP_ADDR"
	EnvToken      = "RONDEL_HTTP_TOKEN"
	EnvCACert     = "RONDEL_CACERT"
	EnvClientCert = "RONDEL_CLIENT_CERT"
	EnvClientKey  = "RONDEL_CLIENT_KEY"
)

// defaultTimeout leaves room below the 5 s within which a command has to say
// that no agent is there.
const defaultTimeout = 4500 * time.Millisecond

// ErrAddress means that an address has none of the forms of [Config.Address].
var ErrAddress = errors.New("not an agent's address")

// Config says where the agent is and how to speak with it.
type Config struct {
	// Address is host:port, http://host:port, https://host:port, [v6]:port
	// or unix:///path. A host without a port means port 8700.
	Address string
	Token   string

	CAFile     string // PEM; empty: the system's
	ClientCert string // PEM, together with ClientKey
	ClientKey  string

	// Timeout bounds how long an agent may take to start its answer, for
	// calls that it answers at once. It does not bound blocking reads,
	// streams, Join and Leave. Zero: 4.5 s.
	Timeout time.Duration
}

// DefaultConfig is the environment's configuration.
func DefaultConfig() Config {
	cfg := Config{
		Address:    os.Getenv(EnvAddress),
		Token:      os.Getenv(EnvToken),
		CAFile:     os.Getenv(EnvCACert),
		ClientCert: os.Getenv(EnvClientCert),
		ClientKey:  os.Getenv(EnvClientKey),
	}
	if cfg.Address == "" {
		cfg.Address = DefaultAddress
	}
	return cfg
}

// endpoint is a parsed address.
type endpoint struct {
	base  string // scheme://host:port, without a final slash
	shown string // what errors name
	unix  string // path of a socket
	tls   bool
}

func parseAddress(s string) (endpoint, error) {
	bad := func(why string) (endpoint, error) {
		return endpoint{}, fmt.Errorf("%q: %w: %s; write host:port, http://host:port, https://host:port or unix:///path", s, ErrAddress, why)
	}
	if s == "" {
		s = DefaultAddress
	}
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		if path == "" {
			return bad("the path of the socket is missing")
		}
		return endpoint{base: "http://localhost", shown: s, unix: path}, nil
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "http", s
	}
	if scheme != "http" && scheme != "https" {
		return bad("unknown scheme " + strconv.Quote(scheme))
	}
	rest = strings.TrimSuffix(rest, "/")
	if strings.ContainsAny(rest, "/?#@ ") || rest == "" {
		return bad("only a host and a port belong there")
	}
	host, port, err := splitHostPort(rest)
	if err != nil {
		return bad(err.Error())
	}
	base := (&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}).String()
	return endpoint{base: base, shown: base, tls: scheme == "https"}, nil
}

func splitHostPort(s string) (host, port string, err error) {
	switch {
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"):
		host, port = s[1:len(s)-1], "8700"
	case strings.HasPrefix(s, "["), strings.Count(s, ":") == 1:
		host, port, err = net.SplitHostPort(s)
	case strings.Count(s, ":") > 1:
		return "", "", errors.New("an IPv6 address stands in brackets")
	default:
		host, port = s, "8700"
	}
	if err != nil {
		return "", "", errors.New("host and port cannot be told apart")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", "", fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, port, nil
}

func (c Config) tlsConfig() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the CA certificate: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA certificate %s: it holds no PEM certificate", c.CAFile)
		}
	}
	if (c.ClientCert == "") != (c.ClientKey == "") {
		return nil, errors.New("client certificate and client key go together: set both or none")
	}
	if c.ClientCert != "" {
		cert, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("load the client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}
