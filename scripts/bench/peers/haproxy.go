package peers

import "fmt"

// HAProxy is HAProxy with an inserted cookie, and with o on top of that.
func HAProxy(name string, o HAProxyOptions) Peer {
	return Peer{Name: name, start: func(r *Runner, s *Setting) (Program, error) {
		bin, err := Find("haproxy")
		if err != nil {
			return Program{}, err
		}
		bind := ""
		if s.TLS != "" {
			pem, err := pair(r, s)
			if err != nil {
				return Program{}, err
			}
			bind = fmt.Sprintf("  bind %s ssl crt %s alpn http/1.1\n", s.TLS, pem)
		}
		path, err := r.write(slug(name)+".cfg", fmt.Sprintf(`global
  nbthread %d
  maxconn 4000
  ssl-default-bind-options ssl-min-ver TLSv1.3
  ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
%sdefaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout tunnel 1h
  option forwardfor
%sfrontend f
  bind %s
%s  default_backend b
backend b
  balance roundrobin
  cookie SRV insert indirect nocache
%s%s`, s.Threads, indent(o.Global), indent(o.Defaults), s.Addr, bind, indent(o.Backend), lines(s.Instances, "  server NAME ADDR cookie NAME "+o.Server+"\n")))
		return Program{Args: []string{bin, "-db", "-f", path}}, err
	}}
}

// HAProxyOptions are further lines of its configuration.
type HAProxyOptions struct {
	Global, Defaults, Backend []string
	Server                    string // words behind each server
}

func indent(options []string) (text string) {
	for _, o := range options {
		text += "  " + o + "\n"
	}
	return text
}
