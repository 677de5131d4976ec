package peers

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Caddy is Caddy with the cookie policy of its load balancer; options are further
// lines of its reverse_proxy.
func Caddy(name string, options ...string) Peer {
	return Peer{Name: name, start: func(r *Runner, s *Setting) (Program, error) {
		bin, err := Find("caddy")
		if err != nil {
			return Program{}, err
		}
		_, port, err := net.SplitHostPort(s.Addr)
		if err != nil {
			return Program{}, err
		}
		proxy := fmt.Sprintf(`  reverse_proxy %s {
    lb_policy cookie SRV
    transport http {
      keepalive_idle_conns_per_host 256
    }
    %s
  }
`, strings.Join(s.Instances, " "), strings.Join(options, "\n    "))
		text := fmt.Sprintf("{\n  admin off\n  auto_https off\n  persist_config off\n  servers {\n    protocols h1\n  }\n  log {\n    level ERROR\n  }\n}\nhttp://:%s {\n  bind 127.0.0.1\n%s}\n", port, proxy)
		if s.TLS != "" {
			_, port, err := net.SplitHostPort(s.TLS)
			if err != nil {
				return Program{}, err
			}
			text += fmt.Sprintf("https://:%s {\n  bind 127.0.0.1\n  tls %s %s {\n    protocols tls1.3\n  }\n%s}\n", port, s.Cert, s.Key, proxy)
		}
		path, err := r.write(slug(name)+".caddyfile", text)
		return Program{
			Args: []string{bin, "run", "--config", path, "--adapter", "caddyfile"},
			Env:  []string{"GOMAXPROCS=" + strconv.Itoa(s.Threads), "XDG_DATA_HOME=" + r.Dir, "XDG_CONFIG_HOME=" + r.Dir},
		}, err
	}}
}
