package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/accesslog"
	"github.com/rondel-project/rondel/agent/member"
)

// logLine is a line of the access log, as far as tests look at it.
type logLine struct {
	Time                                           time.Time
	Client, Scheme, Method, Host, Target, Protocol string
	Status                                         int
	In                                             int64  `json:"bytes_in"`
	Out                                            int64  `json:"bytes_out"`
	ID                                             string `json:"request_id"`
	Referer, Route, Service, Instance, Chosen, End string
	Agent                                          string `json:"user_agent"`
	Tries                                          int
	Head                                           float64  `json:"head_ms"`
	Connect                                        float64  `json:"connect_ms"`
	First                                          *float64 `json:"first_byte_ms"`
	Total                                          float64  `json:"total_ms"`
}

// logged runs a proxy with an access log and returns it, with a function that
// waits for the next line.
func logged(t *testing.T, cfg Config, apps ...Instance) (*rig, func() logLine) {
	t.Helper()
	return loggedAs(t, accesslog.Config{}, cfg, apps...)
}

func loggedAs(t *testing.T, as accesslog.Config, cfg Config, apps ...Instance) (*rig, func() logLine) {
	t.Helper()
	return loggedIn(t, 0, as, cfg, apps...)
}

func loggedIn(t *testing.T, loops int, as accesslog.Config, cfg Config, apps ...Instance) (*rig, func() logLine) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	as.Path = path
	log, err := accesslog.Open(accesslog.Options{Config: as})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- log.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if cfg.Routes == nil {
		cfg.Routes = []Route{DefaultRoute("shop")}
	}
	sess := newSessions()
	p, err := New(Options{Config: unhurried(cfg), Sessions: sess, TagKey: []byte("secret"), Access: log, Loops: loops})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances(apps)
	r := serveRig(t, p)
	r.sess = sess
	seen := 0
	return r, func() (l logLine) {
		t.Helper()
		var lines []string
		eventually(t, "a line in the access log", func() bool {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines = strings.SplitAfter(string(text), "\n")
			return len(lines) > seen+1
		})
		seen++
		d := json.NewDecoder(strings.NewReader(lines[seen-1]))
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%v: %s", err, lines[seen-1])
		}
		return l
	}
}

func TestAccessLog_saysWhatPassed(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	a := startApp(t, "a1", raw(nil, answer))
	cfg := DefaultConfig()
	cfg.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	r, next := logged(t, cfg, instanceOf(a, "m1"))
	const ask = "POST /cart;jsessionid=S3CRET?token=S3CRET HTTP/1.1\r\nHost: shop.example.com\r\nX-Forwarded-For: 203.0.113.9\r\n" +
		"X-Forwarded-Proto: https\r\nReferer: http://x/?code=S3CRET\r\nUser-Agent: \"me\"\r\nContent-Length: 3\r\n\r\nabc"
	began := time.Now()
	nc, br := r.send(t, ask)
	resp, _ := read(t, br, "POST")
	l := next()
	for what, ok := range map[string]bool{
		"time":    !l.Time.Before(began.Truncate(time.Millisecond)) && l.Time.Before(time.Now()),
		"client":  l.Client == "203.0.113.9" && l.Scheme == "https",
		"request": l.Method == "POST" && l.Host == "shop.example.com" && l.Target == "/cart;jsessionid=*?token=*" && l.Protocol == "HTTP/1.1",
		"fields":  l.Referer == "http://x/?code=*" && l.Agent == `"me"`,
		"status":  l.Status == 200 && l.End == "done",
		"bytes":   l.In == int64(len(ask)) && l.Out > int64(len(answer)) && l.Out < 1000,
		"id":      l.ID == resp.Header.Get("Rondel-Request-Id") && len(l.ID) == 32,
		"names":   l.Route == "shop" && l.Service == "shop" && l.Instance == "a1@m1",
		"choice":  l.Tries == 1 && l.Chosen == "round_robin",
		"timings": l.Head == 0 && l.First != nil && *l.First > 0 && *l.First <= l.Total && l.Connect > 0 && l.Connect <= l.Total,
	} {
		if !ok {
			t.Errorf("%s: %+v", what, l)
		}
	}
	out := l.Out
	// The same connection again: bytes count from where they were.
	const again = "GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"
	io.WriteString(nc, again)
	read(t, br, "GET")
	if l = next(); l.In != int64(len(again)) || l.Out > out+30 || l.Protocol != "HTTP/1.0" || l.Connect != 0 || l.Client != "127.0.0.1" || l.Scheme != "http" {
		t.Errorf("second request: %+v", l)
	}
}

func TestAccessLog_saysWhyAnInstanceWasChosen(t *testing.T) {
	t.Parallel()
	apps := map[string]*app{}
	var list []Instance
	for _, n := range []string{"1", "2", "3"} {
		a := startApp(t, "a"+n, echo("a"+n))
		apps["a"+n] = a
		list = append(list, instanceOf(a, member.ID("m"+n)))
	}
	cfg := DefaultConfig()
	hash := DefaultRoute("shop")
	hash.Name, hash.Path, hash.Balance, hash.HashOn, hash.HashName = "hash", "/hash", Hash, HashHeader, "X-Key"
	random := hash
	random.Name, random.Path, random.HashFallback = "random", "/random", Random
	cfg.Routes = []Route{DefaultRoute("shop"), hash, random}
	r, next := logged(t, cfg, list...)
	want := func(what, chosen string) logLine {
		t.Helper()
		l := next()
		if l.Chosen != chosen || l.End != "done" || l.Status != 200 {
			t.Errorf("%s: %+v, want %s", what, l, chosen)
		}
		return l
	}
	name, cookie, _ := r.get(t, "")
	want("a new client", "round_robin")
	r.get(t, cookie)
	if l := want("its next request", "bound"); !strings.HasPrefix(l.Instance, name+"@") {
		t.Errorf("bound to %s, asked %s", name, l.Instance)
	}
	_, br := r.send(t, "GET /hash HTTP/1.1\r\nHost: x\r\nX-Key: k\r\n\r\n")
	read(t, br, "GET")
	want("a key to hash", "hash")
	for path, how := range map[string]string{"/hash": "round_robin", "/random": "random"} {
		r.request(t, path, "")
		want("no key", how)
	}
	// The session's slot belongs to m3, the tag to nobody.
	value := strings.TrimPrefix(cookie, "RONDEL=")
	id, _, _ := strings.Cut(value, ".")
	parts := strings.Split(id, "~")
	parts[1] = "3"
	r.request(t, "/", "RONDEL="+strings.Join(parts, "~")+".AAAAAAAAAAA")
	want("the owner's instance", "owner")
	r.sess.set(func() { r.sess.owners[3], r.sess.successors = "m9", []member.ID{"m8", "m2"} })
	r.request(t, "/", "RONDEL="+strings.Join(parts, "~")+".AAAAAAAAAAA")
	want("a successor's instance", "successor")
	r.sess.set(func() { r.sess.successors = nil })
	r.request(t, "/", "RONDEL="+strings.Join(parts, "~")+".AAAAAAAAAAA")
	want("by the session alone", "session")
	for i := range list {
		list[i].Backup = i == 0
		list[i].Health = Critical
	}
	list[0].Health = Passing
	list[1].Health = Passing
	apps["a2"].kill()
	r.SetInstances(list)
	r.request(t, "/", "")
	if l := want("a backup", "backup"); l.Tries != 1 || l.Instance != "a1@m1" {
		t.Errorf("backup: %+v", l)
	}
}

func TestAccessLog_saysWhatEndedIt(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	shop := DefaultRoute("shop")
	shop.Host = "x"
	cfg.Routes = []Route{shop}
	began := make(chan struct{}, 1)
	a := startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			switch q.URL.Path {
			case "/hang":
				began <- struct{}{}
				br.ReadByte()
				return
			case "/slow":
				br.ReadByte()
				return
			case "/break":
				return
			case "/cut":
				io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
				return
			case "/nonsense":
				io.WriteString(nc, "HELLO\r\n\r\n")
			case "/upload":
				io.Copy(io.Discard, q.Body)
				return
			}
			io.WriteString(nc, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	r, next := logged(t, cfg, instanceOf(a, "m1"))
	within := func(change func(*Timeouts)) {
		t.Helper()
		now := cfg
		if change != nil {
			change(&now.Timeouts)
		}
		if err := r.Reload(unhurried(now)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		ask, end string
		status   int
	}{
		{"POST /break HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "instance", 502},
		{"GET /cut HTTP/1.1\r\nHost: x\r\n\r\n", "instance", 200},
		{"GET /nonsense HTTP/1.1\r\nHost: x\r\n\r\n", "invalid_answer", 502},
		{"GET / HTTP/1.1\r\nHost: other\r\n\r\n", "no_route", 404},
		{"GET / HTTP/1.1\r\nHost: x\r\nbad\r\n\r\n", "refused", 400},
		{"GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 70<<10) + "\r\n\r\n", "refused", 431},
		{"GET /" + strings.Repeat("a", 70<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", "refused", 414},
		{"POST /upload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "refused", 400},
	} {
		nc, br := r.send(t, c.ask)
		if resp, err := http.ReadResponse(br, nil); err == nil {
			io.Copy(io.Discard, resp.Body)
		}
		nc.Close()
		if l := next(); l.End != c.end || l.Status != c.status {
			t.Errorf("%.40q: %+v, want %s %d", c.ask, l, c.end, c.status)
		}
	}
	within(func(t *Timeouts) { t.Response = 150 * time.Millisecond })
	r.request(t, "/slow", "")
	if l := next(); l.End != "instance_timeout" || l.Status != 504 {
		t.Errorf("a slow answer: %+v", l)
	}
	within(func(t *Timeouts) { t.Body = 2 * time.Second }) // in which the answer has to leave, too
	_, br := r.send(t, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
	read(t, br, "POST")
	if l := next(); l.End != "client_timeout" || l.Status != 408 {
		t.Errorf("a slow body: %+v", l)
	}
	// A connection that has been of use is given time for the first byte of a head.
	within(nil)
	nc, br := r.send(t, "GET / HTTP/1.1\r\nHost: other\r\n\r\n")
	read(t, br, "GET")
	next()
	within(func(t *Timeouts) { t.Header = 150 * time.Millisecond })
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost:")
	read(t, br, "GET")
	if l := next(); l.End != "client_timeout" || l.Status != 408 || l.Method != "" || l.Head < 100 {
		t.Errorf("a slow head: %+v", l)
	}
	within(nil)
	nc, _ = r.send(t, "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
	<-began
	nc.Close()
	if l := next(); l.End != "client" || l.Status != 499 || l.First != nil || l.Instance != "a1@m1" {
		t.Errorf("a client that left: %+v", l)
	}
	a.kill()
	r.request(t, "/", "")
	if l := next(); l.End != "unreachable" || l.Status != 503 || l.Tries != 0 || l.Instance != "a1@m1" {
		t.Errorf("no connection: %+v", l)
	}
	r.SetInstances(nil)
	r.request(t, "/", "")
	if l := next(); l.End != "no_instance" || l.Status != 503 || l.Instance != "" {
		t.Errorf("no instance: %+v", l)
	}
}

// Whatever else is logged of queries, a session's id and the token of a redirect
// are not.
func TestAccessLog_masksWhatCarriesASession(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	cfg := DefaultConfig()
	shop := DefaultRoute("shop")
	shop.Sticky.LearnQuery, shop.Sticky.LearnPath = "sid", "jsessionid"
	cfg.Routes = []Route{shop}
	r, next := loggedAs(t, accesslog.Config{Query: accesslog.QueryFull}, cfg, instanceOf(a, "m1"))
	_, br := r.send(t, "GET /a;jsessionid=S3CRET?page=2&sid=S3CRET&_rondel=S3CRET HTTP/1.1\r\nHost: x\r\nReferer: /b?x=y&sid=S3CRET\r\n"+
		"Cookie: a=S3CRET\r\nAuthorization: S3CRET\r\n\r\n")
	read(t, br, "GET")
	if l := next(); l.Target != "/a;jsessionid=*?page=2&sid=*&_rondel=*" || l.Referer != "/b?x=y&sid=*" || strings.Contains(fmt.Sprint(l), "S3CRET") {
		t.Errorf("%+v", l)
	}
}

func TestAccessLog_tunnelsAtTheirEnd(t *testing.T) {
	t.Parallel()
	eachWay(t, logTunnelsAtTheirEnd)
}

func logTunnelsAtTheirEnd(t *testing.T, loops int) {
	a := startApp(t, "a1", switching)
	cfg := DefaultConfig()
	cfg.Timeouts.Drain = 50 * time.Millisecond
	r, next := loggedIn(t, loops, accesslog.Config{}, cfg, instanceOf(a, "m1"))
	open := func() (net.Conn, *bufio.Reader) {
		nc, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(err)
		}
		return nc, br
	}
	nc, br := open()
	io.WriteString(nc, "ping")
	buf := make([]byte, 4)
	io.ReadFull(br, buf)
	nc.Close()
	if l := next(); l.Status != 101 || l.End != "client" || l.Out < 100 || l.Method != "GET" || l.Target == "" || l.Host == "" {
		t.Errorf("the client ended: %+v", l)
	}
	open()
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	if l := next(); l.Status != 101 || l.End != "stopped" {
		t.Errorf("the agent stopped: %+v", l)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
