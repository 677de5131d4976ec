package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// sharedBindings is what the cluster keeps, for proxies that stand for its agents.
type sharedBindings struct {
	mu    sync.Mutex
	kept  map[string]string
	found int
	mute  bool // nobody answers
}

func (b *sharedBindings) Name(scope string, value []byte) (string, bool) {
	return scope + "|" + string(value), true
}

func (b *sharedBindings) Find(ctx context.Context, name string) (string, bool) {
	b.mu.Lock()
	b.found++
	mute, text := b.mute, b.kept[name]
	b.mu.Unlock()
	if mute {
		<-ctx.Done()
		return "", false
	}
	return text, true
}

func (b *sharedBindings) Bind(name, binding string, only bool, done func(bool)) {
	b.mu.Lock()
	_, there := b.kept[name]
	if !only || there {
		b.kept[name] = binding
	}
	mute := b.mute
	b.mu.Unlock()
	if !mute {
		done(!only || there)
	}
}

func (b *sharedBindings) get(name string) (string, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[name], len(b.kept)
}

func (b *sharedBindings) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.found
}

func (b *sharedBindings) silence(mute bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mute = mute
}

// carrierApp gives out ids in whatever way it is asked to, and answers its name,
// the session it was told of, and the request line.
func carrierApp(t *testing.T, name string) *app {
	return startApp(t, name, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			status, more := "200 OK", ""
			switch give, value, _ := strings.Cut(q.Header.Get("Give"), "="); give {
			case "cookie":
				more = "Set-Cookie: JSESSIONID=" + value + "; Path=/; HttpOnly\r\n"
			case "deleted":
				more = "Set-Cookie: JSESSIONID=deleted; Expires=Thu, 01-Jan-1970 00:00:01 GMT; Path=/\r\n"
			case "header":
				more = "X-SESSION: " + value + "\r\n"
			case "location":
				status, more = "302 Found", "Location: /home;jsessionid="+value+"?from=login#top\r\n"
			case "query":
				status, more = "303 See Other", "Location: https://shop.example.com/home?a=b&sid="+value+"\r\n"
			case "drop":
				more = "Rondel-Session: drop\r\n"
			}
			body := name + " " + q.Header.Get("Rondel-Session") + " " + q.RequestURI
			io.WriteString(nc, fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), more, body))
		}
	})
}

type cluster struct {
	rigs   []*rig
	apps   []*app
	shared *sharedBindings
}

// newCluster is three proxies that share what they learn, and four instances.
func newCluster(t *testing.T, sticky func(*Sticky)) *cluster {
	c := &cluster{shared: &sharedBindings{kept: map[string]string{}}}
	var list []Instance
	for n := range 4 {
		a := carrierApp(t, fmt.Sprintf("a%d", n+1))
		c.apps = append(c.apps, a)
		list = append(list, instanceOf(a, member.ID(fmt.Sprintf("m%d", n+1))))
	}
	cfg := DefaultConfig()
	rt := DefaultRoute("shop")
	rt.Sticky.Learn, rt.Sticky.LearnPath, rt.Sticky.LearnQuery, rt.Sticky.LearnHeader = "JSESSIONID", "jsessionid", "sid", "x-session"
	if sticky != nil {
		sticky(&rt.Sticky)
	}
	cfg.Routes = []Route{rt}
	for n := range 3 {
		c.rigs = append(c.rigs, startRig(t, setup{cfg: cfg, apps: list, position: n, bindings: c.shared}))
	}
	return c
}

// ask sends a request by way of the n-th proxy and returns who answered, with
// which session, and what it saw of the request line.
func (c *cluster) ask(t *testing.T, n int, path, header string) (app, session, target string, set []string) {
	t.Helper()
	_, br := c.rigs[n].send(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+header+"\r\n")
	resp, body := read(t, br, "GET")
	for _, line := range resp.Header["Set-Cookie"] {
		if strings.HasPrefix(line, "RONDEL=") {
			set = append(set, line)
		}
	}
	part := strings.SplitN(body, " ", 3)
	if len(part) != 3 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	return part[0], part[1], part[2], set
}

func TestLearn_everyAgentKnowsByWhateverCarrier(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	for _, give := range []string{"cookie", "header", "location", "query"} {
		for user := range 4 {
			value := fmt.Sprintf("%s-%d.node%%2F7", give, user)
			app, session, _, _ := c.ask(t, user%3, "/login", "Give: "+give+"="+value+"\r\n")
			for n := range 3 {
				for _, again := range []struct{ path, header string }{
					{"/a/b", "Cookie: other=1; JSESSIONID=" + value + "\r\n"},
					{"/a/b", "x-session:  " + value + "\r\n"},
					{"/a;v=1;jsessionid=" + value + "/b%2F//c;x?y=z;w", ""},
					{"/a;jsessionid=" + value, ""},
					{"/?q=%20&sid=" + value + "&r", ""},
				} {
					a, s, target, set := c.ask(t, n, again.path, again.header)
					if a != app || s != session {
						t.Errorf("%s at agent %d by %q %q: from %s with %s to %s with %s", value, n, again.path, again.header, app, session, a, s)
					}
					if target != again.path {
						t.Errorf("%q arrived as %q", again.path, target)
					}
					if len(set) != 1 || !strings.HasPrefix(set[0], "RONDEL="+session+".") {
						t.Errorf("cookies %q", set)
					}
				}
			}
		}
	}
	if _, n := c.shared.get(""); n != 16 {
		t.Errorf("%d bindings are kept", n)
	}
}

// What no application has given out is not kept for all: anybody can make up
// ids. All agents send it to the same instance nevertheless.
func TestLearn_madeUpIDsFillNobodysMemory(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	_, _, _, set := c.ask(t, 0, "/", "")
	ours := strings.SplitN(set[0], ";", 2)[0]
	for n := range 30 {
		header := fmt.Sprintf("Cookie: JSESSIONID=stranger%d\r\n", n)
		a, _, _, _ := c.ask(t, n%3, "/", header)
		b, _, _, _ := c.ask(t, (n+1)%3, "/", header)
		if a != b {
			t.Errorf("%q goes to %s, and to %s", header, a, b)
		}
		c.ask(t, 2, "/", fmt.Sprintf("Cookie: %s; JSESSIONID=stranger%d\r\n", flip(ours, len(ours)-1), n))
		c.ask(t, 1, "/", "X-Session: "+strings.Repeat("x", maxLearned+1)+"\r\n")
	}
	if _, n := c.shared.get(""); n != 0 {
		t.Errorf("%d bindings are kept", n)
	}
}

func TestLearn_followsWhatHappens(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	const header = "Cookie: JSESSIONID=v\r\n"
	app, session, _, _ := c.ask(t, 0, "/login", "Give: cookie=v\r\n")

	// The instance goes: the binding follows, for agents that saw nothing too.
	for n, a := range c.apps {
		if a.name == app {
			c.apps[n].kill()
		}
	}
	next, s, _, _ := c.ask(t, 0, "/", header)
	if next == app || s != session {
		t.Fatalf("from %s with %s to %s with %s", app, session, next, s)
	}
	text, _ := c.shared.get("shop|v")
	for n := range 3 {
		if a, s, _, set := c.ask(t, n, "/", header); a != next || s != session || len(set) != 1 || !strings.HasPrefix(set[0], "RONDEL="+text+";") {
			t.Errorf("agent %d: %s with %s, cookies %q; bound to %q", n, a, s, set, text)
		}
	}

	// The application ends it, in its own way or in Rondel's.
	c.ask(t, 1, "/logout", header+"Give: drop\r\n")
	if text, _ := c.shared.get("shop|v"); text != "" {
		t.Errorf("after the end it is bound to %q", text)
	}
	c.ask(t, 1, "/login", "Give: cookie=w\r\n")
	if text, _ := c.shared.get("shop|w"); text == "" {
		t.Error("not bound")
	}
	c.ask(t, 2, "/logout", "Cookie: JSESSIONID=w\r\nGive: deleted\r\n")
	if text, _ := c.shared.get("shop|w"); text != "" {
		t.Errorf("after its cookie's end it is bound to %q", text)
	}
	if text, n := c.shared.get("shop|deleted"); text != "" || n != 2 {
		t.Errorf("the value of a cookie that is taken away is bound to %q; %d bindings", text, n)
	}
	c.ask(t, 1, "/login", header+"Give: cookie=v\r\n")
	if text, _ := c.shared.get("shop|v"); text == "" {
		t.Error("an id that is given out again is not bound")
	}
}

// While nobody can tell, requests are held up a little and once, and pass.
func TestLearn_nobodyCanTell(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	c.shared.silence(true)
	c.ask(t, 0, "/login", "Give: cookie=v\r\n")
	began := time.Now()
	first, _, _, _ := c.ask(t, 1, "/", "Cookie: JSESSIONID=z\r\n")
	c.shared.mu.Lock()
	c.shared.kept["shop|z"] = "another"
	c.shared.mu.Unlock()
	c.ask(t, 2, "/", "Cookie: JSESSIONID=z\r\n")
	if text, _ := c.shared.get("shop|z"); text != "another" {
		t.Errorf("an agent that could not ask has changed the binding to %q", text)
	}
	asked := c.shared.asked()
	for range 5 {
		if a, _, _, _ := c.ask(t, 1, "/", "Cookie: JSESSIONID=z\r\n"); a != first {
			t.Errorf("%s, after %s", a, first)
		}
	}
	// The first answer has been a while ago, perhaps; those that follow are good for longer.
	if more, most := c.shared.asked()-asked, 1+int(time.Since(began)/findRetry); more > most {
		t.Errorf("asked %d times more, at most %d are due", more, most)
	}
}

func TestLearn_nothingIsAskedWhereItWouldWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	p := c.rigs[0].Proxy
	for cookie, want := range map[string]bool{"": true, "JSESSIONID=x": false, "JSESSIONID=": true, "other=x": true} {
		cn := newConn(p, &net.TCPConn{}, newPeer(&net.TCPConn{}), nil)
		if err := cn.req.Parse([]byte("GET / HTTP/1.1\r\nHost: x\r\nCookie: a=b; " + cookie + "\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		cn.x.begin(cn)
		cn.x.rt = cn.x.snap.match(cn.x.q.Host, cn.x.q.Path)
		if got := cn.x.claim(false); got != want {
			t.Errorf("%q: %v", cookie, got)
		}
	}
	if c.shared.asked() != 0 {
		t.Error("somebody was asked")
	}
}

func FuzzCarried(f *testing.F) {
	f.Add("/a;jsessionid=x/b", "sid=y&sid=z", "JSESSIONID=v; Max-Age=0")
	f.Add("/;jsessionid=;;jsessionid", "&=&sid", "JSESSIONID=v; Expires=Thu, 01-Jan-1970 00:00:01 GMT")
	f.Fuzz(func(t *testing.T, path, query, line string) {
		s := &Sticky{Learn: "JSESSIONID", LearnPath: "jsessionid", LearnQuery: "sid", LearnHeader: "x-session"}
		v := string(addressed([]byte(path), []byte(query), s))
		if v != "" && !strings.Contains(path, ";jsessionid="+v) && !strings.Contains("&"+query, "&sid="+v) {
			t.Errorf("%q is in neither %q nor %q", v, path, query)
		}
		if strings.ContainsAny(v, "&") && !strings.Contains(path, v) {
			t.Errorf("%q", v)
		}
		if value, gone, ok := setCookie([]byte(line), "JSESSIONID"); ok && !gone && (len(value) == 0 || strings.Contains(string(value), ";")) {
			t.Errorf("%q of %q", value, line)
		}
	})
}
