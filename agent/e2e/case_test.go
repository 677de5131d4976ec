package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rondel-project/rondel/api"
)

// secrets are texts that must be in no log.
type secrets struct {
	mu   sync.Mutex // guards said
	said map[string]string
}

// keep notes a secret and what it is, and returns it.
func (s *secrets) keep(what, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said[text] = what
	return text
}

// id notes a session's id by its middle: an id that is shortened well enough does
// not show it.
func (s *secrets) id(text string) string {
	if n := len(text); n > 40 {
		s.keep("a session's id", text[n/3:2*n/3])
	}
	return text
}

// shop is an application behind the proxy: it writes to its session by the
// agent's API, gives it a new id at /login, ends it at /logout, and breaks off at
// /broken.
func shop(t *testing.T, agent func() *node, s *secrets) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := s.id(r.Header.Get("Rondel-Session"))
		key := s.keep("a request's id", r.Header.Get("Rondel-Request-Id"))
		sessions := agent().api.Sessions()
		_, err := sessions.Patch(r.Context(), id, map[string]any{s.keep("an attribute's name", "n4me-proxied"): s.keep("a value", "v4lue-proxied")}, api.WithIdempotencyKey(key))
		switch r.URL.Path {
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/login":
			if m, err := sessions.Rotate(r.Context(), id); err == nil {
				w.Header().Set("Rondel-Session", s.id(m.ID))
			}
		case "/logout":
			w.Header().Set("Rondel-Session", "drop")
		}
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintln(w, s.keep("a body", "b0dy-answered"))
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// What sessions are called and hold, and what requests carry, is in no log,
// whatever happens to them, and though the logs tell all else.
func TestCase_D21_logsTellNothingOfSessions(t *testing.T) {
	t.Parallel()
	s := &secrets{said: map[string]string{}}
	var c cluster
	port := shop(t, func() *node { return c[1] }, s)
	c = newCluster(t, "-log-level=debug", fmt.Sprintf("-service=shop:%d", port), withConfig(t, "session {\n  durability = \"disk\"\n}\n"))
	ask := func(n *node, method, path, body string, header ...string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, n.url()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	name, value := s.keep("an attribute's name", "n4me-plain"), s.keep("a value", "v4lue-plain")
	key, token := s.keep("an idempotency key", "k3y-of-mine"), s.keep("a token", "t0ken-of-mine")
	round := func(n *node) {
		t.Helper()
		ctx, sessions := t.Context(), n.api.Sessions()
		var id string
		until(t, soon, "a session is made", func(ctx context.Context) error {
			made, err := sessions.Create(ctx, api.SessionCreate{
				Group: s.keep("a group", "gr0up-a"), Principal: s.keep("a principal", "pr1ncipal-a"), Attributes: map[string]any{name: value, "count": 1},
			})
			if err == nil {
				id = s.id(made.ID)
			}
			return err
		})
		path, token := "/v1/sessions/"+id, []string{"X-Rondel-Token", token, "Authorization", "Bearer " + token, "Idempotency-Key", key, "Cookie", "RONDEL=" + id}
		flipped := []byte(id)
		flipped[len(id)-1] ^= 1
		for _, x := range []struct{ method, path, body string }{
			{"GET", path, ""}, {"PATCH", path, `{"Attributes":{"` + name + `":"` + value + `"}}`}, {"PUT", path, `{"Attributes":{"count":1,"` + name + `":2}}`},
			{"PUT", path + "/attributes/" + name, `"` + value + `"`}, {"GET", path + "/attributes/" + name, ""}, {"DELETE", path + "/attributes/" + name, ""},
			{"POST", path + "/attributes/count/incr", `{"By":1}`}, {"POST", path + "/attributes/list/append", `{"Value":"` + value + `"}`}, {"POST", path + "/touch", ""},
			// and what goes wrong.
			{"PATCH", path, `{"Attributes":{"` + name + `":` + value}, {"PATCH", path, `{"` + name + `":"` + value + `"}`}, {"PUT", path, `{"Attributes":{"` + name + `":"` + strings.Repeat(value, 1<<17) + `"}}`},
			{"POST", path + "/attributes/" + name + "/incr", `{"By":1}`}, {"GET", "/v1/sessions/" + string(flipped), ""}, {"POST", path + "/" + value, ""}, {"BREW", path, ""},
			{"GET", path + "?consistency=" + value, ""}, {"GET", "/v1/sessions?principal=pr1ncipal-a&" + name + "=1", ""}, {"GET", path + "/explain", ""}, {"GET", "/v1/ring/locate/" + id, ""},
		} {
			ask(n, x.method, x.path, x.body, token...)
			ask(n, x.method, x.path, x.body, append(token, "If-Match", `"1-99"`, "Host", value)...)
		}
		if m, err := sessions.Rotate(ctx, id); err == nil {
			until(t, soon, "the session is deleted", func(ctx context.Context) error {
				_, err := sessions.Delete(ctx, s.id(m.ID))
				if api.IsNotFound(err) {
					return nil
				}
				return err
			})
		}
		ask(n, "GET", path, "", token...)
	}
	browse := func(n *node) {
		t.Helper()
		cookie := ""
		for _, path := range []string{"/", "/?q=" + value, "/login", "/broken", "/", "/logout", "/"} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+n.at.at(3)+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Cookie", cookie)
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				continue
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			for _, k := range resp.Cookies() {
				if cookie = k.Name + "=" + k.Value; k.Value != "" {
					s.id(k.Value)
				}
			}
		}
	}
	for _, n := range c {
		round(n)
		browse(n)
	}
	// Trouble makes logs talk.
	held := s.id(create(t, c[0]))
	c[0].kill(t)
	round(c[1])
	browse(c[2])
	read(t, c[1], func() string { write(t, c[1], held, 7); return held }(), 7)
	c[0].start(t)
	c.whole(t)
	c[2].signal(t, syscall.SIGTERM)
	round(c[0])
	c[2].start(t)
	c.whole(t)
	read(t, c[2], held, 7)

	lines := 0
	for _, n := range c {
		text, err := os.ReadFile(n.log)
		if err != nil {
			t.Fatal(err)
		}
		lines += bytes.Count(text, []byte("[DEBUG]"))
		for secret, what := range s.said {
			if at := bytes.Index(text, []byte(secret)); at >= 0 && secret != "" {
				line := text[bytes.LastIndexByte(text[:at], '\n')+1:]
				t.Errorf("%s logs %s: %.300s", n.name, what, line[:bytes.IndexByte(line, '\n')])
			}
		}
	}
	ids := 0
	for _, what := range s.said {
		if what == "a session's id" {
			ids++
		}
	}
	if lines < 100 || ids < 10 {
		t.Errorf("%d lines of the level debug, %d ids: nothing was tried", lines, ids)
	}
}

// Names that need care in a URL go through the command line as they are.
func TestCase_D23_namesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	set, look := "-http-addr="+c[0].url(), "-http-addr="+c[1].url()
	id := create(t, c[0])
	// An owner that was held up says that it cannot tell, or that it may be behind.
	run := func(args ...string) (out string) {
		t.Helper()
		until(t, soon, fmt.Sprintf("rondel %.200q has done it", args), func(context.Context) error {
			var errs string
			var code int
			if out, errs, code = rondel(t, args...); code != 0 {
				return fmt.Errorf("exit code %d: %s%s", code, out, errs)
			}
			return nil
		})
		return out
	}
	show := func() map[string]json.RawMessage {
		t.Helper()
		for {
			var got struct {
				Attributes map[string]json.RawMessage
				Stale      bool
			}
			out := run("session", "get", "-format=json", look, id)
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !got.Stale {
				return got.Attributes
			}
		}
	}
	want := map[string]string{}
	args := []string{"session", "put", set, "--", id}
	for i, name := range []string{
		"a/b", "a%2Fb", "a%b", "a+b", "a b", "//", "/lead", ".", "..", "a/../b", "é", "%00", "-x", "a@b:c;d&e?f#g", strings.Repeat("n", 300),
	} {
		want[name] = fmt.Sprint(i)
		args = append(args, name+"="+want[name])
	}
	run(args...)
	check := func() {
		t.Helper()
		got := show()
		if len(got) != len(want) {
			t.Errorf("%d attributes, want %d: %v", len(got), len(want), got)
		}
		for name, v := range want {
			if string(got[name]) != v {
				t.Errorf("%q is %s, want %s", name, got[name], v)
			}
			// The API has each under the same name.
			var b []byte
			until(t, soon, fmt.Sprintf("%q is read by the API", name), func(ctx context.Context) (err error) {
				b, _, err = c[2].api.Sessions().Attribute(ctx, id, name)
				return err
			})
			if string(b) != v {
				t.Errorf("%q by the API is %q, want %s", name, b, v)
			}
		}
	}
	check()
	// Each is removed by its name, alone.
	for _, name := range []string{"a%2Fb", "//", "..", "é"} {
		run("session", "put", set, "--", id, name+"=null")
		delete(want, name)
		check()
	}
	for what, name := range map[string]string{"not UTF-8": "\xff", "too long": strings.Repeat("n", 1025)} {
		if out, errs, code := rondel(t, "session", "put", set, id, name+"=1"); code == 0 || out != "" || errs == "" {
			t.Errorf("a name that is %s: exit code %d, %q, %.300q", what, code, out, errs)
		}
	}
	for _, bad := range []string{"a/b", "..", "%2e%2e", "a b", "é", strings.Repeat("x", 300)} {
		if _, errs, code := rondel(t, "session", "get", look, bad); code != 1 || !strings.Contains(errs, "session") {
			t.Errorf("session get %.20q: exit code %d, %.300s", bad, code, errs)
		}
	}
	check()
}
