package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/member"
)

func TestCase_D14_setWithEveryAnswerOfTheApplication(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"101": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
		"204": "HTTP/1.1 204 No Content\r\n",
		"301": "HTTP/1.1 301 Moved Permanently\r\nLocation: /there\r\nContent-Length: 0\r\n",
		"304": "HTTP/1.1 304 Not Modified\r\n",
		"404": "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n",
		"500": "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n",
		"503": "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The application's own lines, two of them equal, one named nearly as ours.
			const own = "Set-Cookie: a=1; Path=/x\r\nset-cookie:  b=2\r\nSet-Cookie: a=1; Path=/x\r\nSet-Cookie: RONDELX=3;Secure\r\n"
			a := startApp(t, "a1", raw(nil, answer+own+"\r\n"))
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			ask := func(cookie string) []string {
				_, br := r.send(t, "GET /deep/er/page HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+cookie+"\r\n")
				return setLines(rawHead(t, br))
			}
			want := strings.Split(strings.TrimSuffix(own, "\r\n"), "\r\n")
			lines := ask("")
			if len(lines) != 5 || !slices.Equal(lines[:4], want) || !strings.HasPrefix(lines[4], "Set-Cookie: RONDEL=") || !strings.Contains(lines[4], "; Path=/;") {
				t.Fatalf("%q", lines)
			}
			ours, _, _ := strings.Cut(strings.TrimPrefix(lines[4], "Set-Cookie: "), ";")
			if lines := ask("Cookie: RONDELX=3; a=1; " + ours + "\r\n"); !slices.Equal(lines, want) {
				t.Errorf("to a client that has it: %q", lines)
			}
		})
	}
}

// A client whose first contact is a handshake goes on at the same instance.
func TestCase_D14_handshakeFirst(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n := range 4 {
		name := fmt.Sprintf("a%d", n+1)
		a := startApp(t, name, func(nc net.Conn) {
			br := bufio.NewReader(nc)
			for {
				q, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				if q.Header.Get("Upgrade") == "" {
					fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n%s ", name)
					continue
				}
				io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n"+name+"\n")
				return
			}
		})
		list = append(list, instanceOf(a, member.ID(fmt.Sprintf("m%d", n+1))))
	}
	r := startRig(t, setup{apps: list})
	for range 8 {
		_, br := r.send(t, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n")
		lines := setLines(rawHead(t, br))
		name, err := br.ReadString('\n')
		if err != nil || len(lines) != 1 {
			t.Fatal(lines, err)
		}
		cookie, _, _ := strings.Cut(strings.TrimPrefix(lines[0], "Set-Cookie: "), ";")
		for range 3 {
			if got, _, set := r.get(t, cookie); got != name[:2] || set {
				t.Errorf("from %q to %q, set %v", name, got, set)
			}
		}
	}
}

// The instance of a request is gone: one line, naming the one that answered.
func TestCase_D14_oneLineAfterAFailover(t *testing.T) {
	t.Parallel()
	b := startApp(t, "b1", echo("b1"))
	gone := startApp(t, "a1", func(nc net.Conn) { // takes a request and breaks off
		http.ReadRequest(bufio.NewReader(nc))
	})
	for what, first := range map[string]Instance{"refuses": deaf(t, "a0"), "breaks off": instanceOf(gone, "m0")} {
		r := startRig(t, setup{apps: []Instance{first, instanceOf(b, "m1")}})
		tag := tagFor([]byte("secret"), "m1", "b1")
		bound := "Cookie: RONDEL=" + func() string { id, _ := r.sess.Mint("m1"); return id }() + "." + tagFor([]byte("secret"), first.Member, first.ID) + "\r\n"
		for _, cookie := range []string{"", "", bound} {
			_, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n"+cookie+"\r\n")
			head := rawHead(t, br)
			lines := setLines(head)
			if !strings.HasPrefix(head, "HTTP/1.1 200") || len(lines) != 1 || !strings.Contains(lines[0], "."+tag+";") {
				t.Errorf("%s, %q: %q", what, cookie, head)
			}
		}
	}
}

// Two services of one host, with one cookie or with one each: all stay.
func TestCase_D14_severalServicesOfOneHost(t *testing.T) {
	t.Parallel()
	var list []Instance
	for _, service := range []string{"s1", "s2"} {
		for n := range 3 {
			name := fmt.Sprintf("%s%c", service, 'a'+n)
			i := instanceOf(startApp(t, name, echo(name)), member.ID(fmt.Sprintf("m%d", n+1)))
			i.Service = service
			list = append(list, i)
		}
	}
	for _, names := range [][2]string{{"RONDEL", "RONDEL"}, {"R1", "R2"}} {
		cfg := DefaultConfig()
		for n, service := range []string{"s1", "s2"} {
			rt := DefaultRoute(service)
			rt.Path, rt.Sticky.Cookie = "/"+service, names[n]
			cfg.Routes = append(cfg.Routes, rt)
		}
		r := startRig(t, setup{cfg: cfg, apps: list})
		jar := map[string]string{}
		at := map[string]string{}
		for n := range 40 {
			path := "/s1"
			if n%2 == 1 {
				path = "/s2"
			}
			var all []string
			for name, value := range jar {
				all = append(all, name+"="+value)
			}
			resp, body := r.request(t, path, strings.Join(all, "; "))
			for _, c := range resp.Cookies() {
				jar[c.Name] = c.Value
				if n >= 2 {
					t.Errorf("%v, request %d to %s: %v again", names, n, path, c)
				}
			}
			got, _, _ := strings.Cut(body, " ")
			if at[path] == "" {
				at[path] = got
			}
			if at[path] != got || !strings.HasPrefix(got, path[1:]) {
				t.Errorf("%v: %s goes from %s to %s", names, path, at[path], got)
			}
		}
	}
}
