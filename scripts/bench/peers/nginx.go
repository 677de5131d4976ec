package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// nginxConf is a configuration with everything in the runner's directory.
func nginxConf(r *Runner, name string, workers int, http string) (string, error) {
	user, temp := "", ""
	if os.Geteuid() == 0 {
		user = "user root; "
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("  %s_temp_path %s;\n", kind, filepath.Join(r.Dir, name+"-"+kind))
	}
	return r.write(name+".conf", fmt.Sprintf(`daemon off; %sworker_processes %d; pid %s;
error_log stderr error;
events { worker_connections 8192; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; tcp_nodelay on;
%s%s}
`, user, workers, filepath.Join(r.Dir, name+".pid"), temp, http))
}

// Nginx is nginx with a cookie that says the instance, the next best instance if
// that one does not answer, and round robin for who has none. It is made of maps,
// since the free nginx has no sticky cookie of its own.
func Nginx(name string) Peer {
	return Peer{Name: name, start: func(r *Runner, s *Setting) (Program, error) {
		bin, err := Find("nginx")
		if err != nil {
			return Program{}, err
		}
		var b strings.Builder
		const keep = " keepalive 256; keepalive_requests 1000000000; "
		fmt.Fprintf(&b, "  upstream any {\n%s   %s\n  }\n", lines(s.Instances, "    server ADDR;\n"), keep)
		for i := range s.Instances {
			// The others stand behind it, and who comes to one of them is told so.
			others := ""
			for j, addr := range s.Instances {
				if j != i {
					others += " server " + addr + " backup;"
				}
			}
			fmt.Fprintf(&b, "  upstream %s { server %s;%s%s}\n", InstanceName(i), s.Instances[i], others, keep)
		}
		fmt.Fprintf(&b, "  map $cookie_SRV $pool {\n    default any;\n%s  }\n", lines(s.Instances, "    NAME NAME;\n"))
		fmt.Fprintf(&b, "  map $upstream_addr $came {\n    default \"\";\n%s  }\n", lines(s.Instances, "    ~ADDR$ NAME;\n"))
		// No cookie is set for who has it already: one map on both.
		fmt.Fprintf(&b, "  map $cookie_SRV:$came $set {\n    default \"SRV=$came; Path=/\";\n%s  }\n", lines(s.Instances, "    NAME:NAME \"\";\n"))
		b.WriteString("  map $http_upgrade $passed { default upgrade; '' ''; }\n")
		secure := ""
		if s.TLS != "" {
			secure = fmt.Sprintf("listen %s ssl reuseport; ssl_certificate %s; ssl_certificate_key %s; ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;", s.TLS, s.Cert, s.Key)
		}
		fmt.Fprintf(&b, `  server {
    listen %s reuseport backlog=4096; %s
    location / {
      proxy_pass http://$pool;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header Connection $passed;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_read_timeout 1h;
      proxy_buffers 20 8k;
      add_header Set-Cookie $set;
    }
  }
`, s.Addr, secure)
		path, err := nginxConf(r, slug(name), s.Threads, b.String())
		return Program{Args: []string{bin, "-c", path}}, err
	}}
}

// Plain starts instances that do nothing but answer: one worker of nginx, far
// cheaper than any proxy. /1k and /64k are bodies of that size, each beginning with
// the instance's name.
func Plain(r *Runner, addrs []string, cpu int) (*Process, error) {
	bin, err := Find("nginx")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("  sendfile on; open_file_cache max=1000 inactive=1h; default_type text/plain;\n")
	for i, addr := range addrs {
		name := InstanceName(i)
		large := name + " " + strings.Repeat("x", 65536-5)
		if _, err := r.write(name+".body", large); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "  server { listen %s backlog=4096; location = /1k { return 200 %q; } location = /64k { alias %s; } location / { return 404; } }\n",
			addr, large[:1024], filepath.Join(r.Dir, name+".body"))
	}
	path, err := nginxConf(r, "instances", 1, b.String())
	if err != nil {
		return nil, err
	}
	return r.Start(Program{Name: "instances", Args: []string{bin, "-c", path}, CPU: cpu})
}
