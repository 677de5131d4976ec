package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// addresses is three agents, each with one instance and an address of its own, and
// a name that leads to any of them.
type addresses struct {
	rigs []*rig
	list []Instance
}

const shopName = "shop.example.com"

func newAddresses(t *testing.T, change func(*Route)) *addresses {
	s := &addresses{}
	sess := newSessions()
	cfg := DefaultConfig()
	rt := DefaultRoute("shop")
	rt.Host, rt.Redirect = shopName, true
	if change != nil {
		change(&rt)
	}
	cfg.Routes = []Route{rt}
	places := map[member.ID]Place{}
	for n := range 3 {
		m := member.ID(fmt.Sprintf("m%d", n+1))
		s.list = append(s.list, instanceOf(startApp(t, fmt.Sprintf("a%d", n+1), echo(fmt.Sprintf("a%d", n+1))), m))
		r := startRig(t, setup{cfg: cfg, sess: sess, position: n})
		s.rigs = append(s.rigs, r)
		host, port, err := net.SplitHostPort(r.addr)
		if err != nil {
			t.Fatal(err)
		}
		places[m] = Place{Name: string(m), Address: host, Port: port}
	}
	for n, r := range s.rigs {
		r.SetPlaces(member.ID(fmt.Sprintf("m%d", n+1)), places)
		if err := r.SetTokenKeys([][]byte{[]byte(strings.Repeat("k", 32))}); err != nil {
			t.Fatal(err)
		}
	}
	s.tell(s.list)
	return s
}

// tell lets all agents know the instances.
func (s *addresses) tell(list []Instance) {
	for n := range s.rigs {
		s.tellOne(n, list)
	}
}

func (s *addresses) tellOne(n int, list []Instance) {
	own := append([]Instance(nil), list...)
	for i := range own {
		own[i].Local = own[i].Member == member.ID(fmt.Sprintf("m%d", n+1))
	}
	s.rigs[n].SetInstances(own)
}

// browser keeps cookies by host and follows where it is sent.
type browser struct {
	s      *addresses
	jar    map[string]string
	refuse bool // keeps none
	hops   []*http.Response
	seen   []string // where it was sent
}

func (s *addresses) browser() *browser { return &browser{s: s, jar: map[string]string{}} }

// open asks for a target at a host, by way of the n-th agent where it is the
// shop's name, and returns what it gets in the end.
func (b *browser) open(t *testing.T, n int, host, method, target, body string) string {
	t.Helper()
	b.hops, b.seen = nil, nil
	for range 12 {
		resp, text := b.once(t, n, host, method, target, body)
		if resp.StatusCode != 307 {
			if resp.StatusCode != 200 {
				t.Fatalf("%s %s%s: %d %s", method, host, target, resp.StatusCode, text)
			}
			return text
		}
		b.hops = append(b.hops, resp)
		location := resp.Header.Get("Location")
		b.seen = append(b.seen, location)
		rest, ok := strings.CutPrefix(location, "http://")
		if !ok {
			t.Fatalf("sent to %q", location)
		}
		at := strings.IndexAny(rest, "/?")
		host, target = rest[:at], rest[at:]
		if resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("on the way to %q: %v", location, resp.Header)
		}
	}
	t.Fatalf("it is sent on and on: %q", b.seen)
	return ""
}

func (b *browser) once(t *testing.T, n int, host, method, target, body string) (*http.Response, string) {
	t.Helper()
	addr := host
	if host == shopName {
		addr = b.s.rigs[n].addr
	}
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	head := method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n"
	if c := b.jar[host]; c != "" {
		head += "Cookie: " + c + "\r\n"
	}
	if body != "" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	io.WriteString(nc, head+"\r\n"+body)
	resp, text := read(t, bufio.NewReader(nc), method)
	if set := resp.Header.Values("Set-Cookie"); len(set) > 1 {
		t.Errorf("several cookies: %q", set)
	} else if len(set) == 1 && !b.refuse {
		b.jar[host], _, _ = strings.Cut(set[0], ";")
	}
	return resp, text
}

func sessionOf(cookie string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(cookie, "RONDEL="), ".")
	return id
}

func TestRedirect_carriesTheSessionAndEveryByte(t *testing.T) {
	t.Parallel()
	s := newAddresses(t, nil)
	apps := map[string]bool{}
	for n, target := range []string{"/", "/x?", "/a//b%2F?c=d&e;f=%zz", "/?&", "//evil.example.com/x", "/a&b", "/x?_rondelx=1&a", "/?q=\xe4|^"} {
		method, body := "GET", ""
		if n%2 == 1 {
			method, body = "POST", strings.Repeat("x", 3000*n)
		}
		b := s.browser()
		text := b.open(t, n%3, shopName, method, target, body)
		part := strings.Fields(text)
		name, session := part[0], part[len(part)-2]
		apps[name] = true
		if len(b.hops) != 2 {
			t.Fatalf("%q: sent to %q", target, b.seen)
		}
		base := "http://" + s.rigs[name[1]-'1'].addr
		if !strings.HasPrefix(b.seen[0], base+target) || !strings.Contains(b.seen[0][len(base+target):], tokenParam+"=") || b.seen[1] != base+target {
			t.Errorf("%q: sent to %q", target, b.seen)
		}
		if part[len(part)-1] != fmt.Sprint(len(body)) {
			t.Errorf("%q: body of %d arrived as %q", target, len(body), text)
		}
		if at := base[len("http://"):]; sessionOf(b.jar[shopName]) != session || b.jar[at] != b.jar[shopName] || session == "" {
			t.Errorf("%q: the shop is told of %q, cookies %q", target, session, b.jar)
		}
		// From now on the data flows past the balancer, and at it nothing changes.
		if again := b.open(t, 0, base[len("http://"):], method, target, body); again != text || len(b.hops) != 0 {
			t.Errorf("%q: %q, after %q and %q", target, again, text, b.seen)
		}
		if again := b.open(t, (n+1)%3, shopName, method, target, body); again != text || b.hops[0].Header.Get("Set-Cookie")+b.hops[1].Header.Get("Set-Cookie") != "" {
			t.Errorf("%q: %q, after %q", target, again, text)
		}
	}
	if len(apps) != 3 {
		t.Errorf("only %v got clients", apps)
	}
}

// A token is good once, at the address it was made for, on its route, and not
// for long. Whatever is wrong with it, the answer is the clean address alone.
func TestRedirect_tokenIsGoodOnceAndThereAlone(t *testing.T) {
	t.Parallel()
	s := newAddresses(t, nil)
	b := s.browser()
	fresh := func() (host, target string) {
		resp, _ := s.browser().once(t, 0, shopName, "GET", "/a?b", "")
		host, target, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Location"), "http://"), "/")
		return host, "/" + target
	}
	refused := func(what, host, target string) {
		t.Helper()
		resp, text := b.once(t, 0, host, "GET", target, "")
		if resp.StatusCode != 307 || resp.Header.Get("Location") != "http://"+host+"/a?b" || resp.Header.Get("Set-Cookie") != "" || strings.Contains(text, "token") {
			t.Errorf("%s: %d %v %q", what, resp.StatusCode, resp.Header, text)
		}
	}
	host, target := fresh()
	other := s.rigs[0].addr
	if other == host {
		other = s.rigs[1].addr
	}
	refused("at another member", other, target)
	for n := 1; n <= 6; n++ {
		refused("a changed byte", host, flip(target, len(target)-n*9))
	}
	refused("cut short", host, target[:len(target)-4])
	refused("nothing", host, "/a?b&_rondel=")
	refused("several", host, "/a?b&_rondel=x&_rondel=y")
	refused("very long", host, "/a?b&_rondel="+strings.Repeat("A", 5000))
	if resp, _ := b.once(t, 0, host, "GET", target, ""); resp.Header.Get("Set-Cookie") == "" {
		t.Fatal("the good one is not taken")
	}
	b.jar = map[string]string{}
	for range 3 {
		refused("used before", host, target)
	}
	// A Host that is not the member's own changes nothing about where it leads.
	_, target = fresh()
	nc, br := s.rigs[0].send(t, "GET "+target+" HTTP/1.1\r\nHost: evil.example.com\r\n\r\n")
	if resp, _ := read(t, br, "GET"); resp.StatusCode != 404 || resp.Header.Get("Set-Cookie") != "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	nc.Close()
	// At the shop's name it is worth nothing, and no application sees it.
	resp, _ := s.browser().once(t, 1, shopName, "GET", target, "")
	if at := resp.Header.Get("Location"); strings.Count(at, tokenParam) != 1 || !strings.Contains(at, "/a?b&"+tokenParam) || strings.HasSuffix(at, target) {
		t.Errorf("sent to %q", at)
	}
}

func TestToken_whatItIsBoundTo(t *testing.T) {
	t.Parallel()
	old, now := []byte(strings.Repeat("a", 32)), []byte(strings.Repeat("b", 32))
	keys, err := newTokenKeys([][]byte{now, old})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := newTokenKeys([][]byte{old})
	at := time.UnixMilli(1_800_000_000_000)
	const tag = "AAAAAAAAAAA"
	const id = "an-id-of-its-own"
	token, ok := before.seal("r", "http://a", id, tag, at)
	if !ok || strings.Contains(token, id) {
		t.Fatal(token)
	}
	p, err := keys.open("r", "http://a", []byte(token), at.Add(time.Second))
	if err != nil || p.id != id || p.tag != tag || !p.issued.Equal(at) {
		t.Fatalf("%+v, %v", p, err)
	}
	for what, err := range map[string]error{
		"another route": func() error { _, err := keys.open("s", "http://a", []byte(token), at); return err }(),
		"route and address run together": func() error {
			_, err := keys.open("rh", "ttp://a", []byte(token), at)
			return err
		}(),
		"another address": func() error { _, err := keys.open("r", "https://a", []byte(token), at); return err }(),
		"too late": func() error {
			_, err := keys.open("r", "http://a", []byte(token), at.Add(tokenLife+time.Millisecond))
			return err
		}(),
		"too early": func() error {
			_, err := keys.open("r", "http://a", []byte(token), at.Add(-tokenSkew-time.Millisecond))
			return err
		}(),
		"no keys": func() error { _, err := tokenKeys(nil).open("r", "http://a", []byte(token), at); return err }(),
	} {
		if err == nil {
			t.Errorf("%s: it is taken", what)
		}
	}
	if twice, _ := before.seal("r", "http://a", id, tag, at); twice == token {
		t.Error("two tokens are the same")
	}
	if _, err := newTokenKeys([][]byte{[]byte("short")}); err == nil {
		t.Error("a short key is taken")
	}
	s := spent{since: at}
	if s.spend(&p, at) != nil || s.spend(&p, at.Add(tokenLife)) == nil {
		t.Error("it is not good once")
	}
	if young := (&spent{since: at.Add(time.Second)}); young.spend(&p, at.Add(2*time.Second)) == nil {
		t.Error("one from before the agent began is taken: who knows who had it")
	}
	for n := range 1000 {
		q := p
		q.nonce[0], q.nonce[1] = byte(n), byte(n>>8)
		q.issued = at.Add(time.Duration(n) * time.Second)
		if n > 0 && s.spend(&q, q.issued) != nil {
			t.Fatal(n)
		}
	}
	if len(s.used) > 80 {
		t.Errorf("%d are remembered", len(s.used))
	}
}

// Whoever keeps no cookies, and members that disagree: everybody is served in
// the end.
func TestRedirect_noLoops(t *testing.T) {
	t.Parallel()
	s := newAddresses(t, nil)
	b := s.browser()
	b.refuse = true
	for n := range 6 {
		b.open(t, n%3, shopName, "GET", "/", "")
		if len(b.hops) != 2 {
			t.Errorf("sent to %q", b.seen)
		}
		b.open(t, 0, s.rigs[n%3].addr, "GET", "/", "")
		if len(b.hops) != 0 {
			t.Errorf("sent to %q", b.seen)
		}
	}
	// Each agent holds its own instance for broken, and the others' for well.
	b = s.browser()
	b.open(t, 0, shopName, "GET", "/", "")
	for n := range s.rigs {
		list := append([]Instance(nil), s.list...)
		list[n].Health = Critical
		s.tellOne(n, list)
	}
	for n := range 9 {
		b.open(t, n%3, shopName, "GET", "/", "")
		b.open(t, 0, s.rigs[n%3].addr, "GET", "/", "")
	}
	// No agent has any: a plain answer, not a walk.
	s.tell(nil)
	if resp, _ := b.once(t, 0, shopName, "GET", "/", ""); resp.StatusCode != 503 {
		t.Error(resp.StatusCode)
	}
	if resp, _ := b.once(t, 0, s.rigs[1].addr, "GET", "/", ""); resp.StatusCode != 503 {
		t.Error(resp.StatusCode)
	}
}

func TestRedirect_toWhereTheSessionIsNow(t *testing.T) {
	t.Parallel()
	s := newAddresses(t, nil)
	b := s.browser()
	text := b.open(t, 0, shopName, "GET", "/", "")
	session := strings.Fields(text)[2]
	first := int(text[1] - '1')
	// The member dies: who comes back to the shop's name is sent to another one.
	rest := append(append([]Instance(nil), s.list[:first]...), s.list[first+1:]...)
	s.tell(rest)
	next := b.open(t, (first+1)%3, shopName, "GET", "/", "")
	if next[:2] == text[:2] || strings.Fields(next)[2] != session || len(b.hops) != 2 {
		t.Fatalf("%q, after %q and %q", next, text, b.seen)
	}
	// Another one that comes to the address of a member without an instance is
	// sent on from there with its session.
	at := b.seen[1][len("http://") : len(b.seen[1])-1]
	b.jar[s.rigs[first].addr] = b.jar[shopName]
	if again := b.open(t, 0, s.rigs[first].addr, "GET", "/", ""); again != next || len(b.hops) != 0 {
		t.Errorf("sent away where it came to just now: %q, after %q and %q", again, next, b.seen)
	}
	s.rigs[first].arrivals.put(session, time.Now().Add(-2*staysFor))
	delete(b.jar, at)
	if again := b.open(t, 0, s.rigs[first].addr, "GET", "/", ""); again != next || len(b.hops) != 2 {
		t.Errorf("%q, after %q and %q", again, next, b.seen)
	}
	// Without a session it is served there, by whoever can.
	if resp, body := s.browser().once(t, 0, s.rigs[first].addr, "GET", "/", ""); resp.StatusCode != 200 || body[:2] == text[:2] {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

func TestRedirect_whatPassesAllTheSame(t *testing.T) {
	t.Parallel()
	s := newAddresses(t, nil)
	for what, head := range map[string]string{
		"an upgrade":  "GET /s HTTP/1.1\r\nHost: " + shopName + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"OPTIONS *":   "OPTIONS * HTTP/1.1\r\nHost: " + shopName + "\r\n\r\n",
		"an odd id":   "GET / HTTP/1.1\r\nHost: " + shopName + "\r\nCookie: RONDEL=v9~1~2~x.AAAAAAAAAAA\r\n\r\n",
		"its own":     "GET / HTTP/1.1\r\nHost: " + s.rigs[0].addr + "\r\n\r\n",
		"its own, 80": "GET / HTTP/1.0\r\nHost: " + s.rigs[0].addr + "\r\n\r\n",
	} {
		nc, br := s.rigs[0].send(t, head)
		if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
			t.Errorf("%s: %d %v", what, resp.StatusCode, resp.Header)
		}
		nc.Close()
	}
	// A member whose proxy nobody can reach answers through this one.
	for n, r := range s.rigs {
		r.SetPlaces(member.ID(fmt.Sprintf("m%d", n+1)), map[member.ID]Place{"m1": {Address: "127.0.0.1", Port: "1"}})
	}
	sent, passed := 0, 0
	for range 9 {
		if resp, _ := s.browser().once(t, 1, shopName, "GET", "/", ""); resp.StatusCode == 307 {
			sent++
		} else {
			passed++
		}
	}
	if sent != 3 || passed != 6 {
		t.Errorf("%d are sent on, %d passed", sent, passed)
	}
}

func TestPlace_templates(t *testing.T) {
	t.Parallel()
	l := Place{Name: "Web1", Address: "[2001:db8::1]", Port: "8780"}
	for template, want := range map[string][2]string{
		"":                             {"http://[2001:db8::1]:8780", "[2001:db8::1]:8780"},
		"https://{member}.example.com": {"https://web1.example.com", "web1.example.com"},
		"http://{member}.x:80":         {"http://web1.x:80", "web1.x"},
		"https://{address}:{port}":     {"https://[2001:db8::1]:8780", "[2001:db8::1]:8780"},
	} {
		base := l.base(template)
		if base != want[0] || authority(base) != want[1] {
			t.Errorf("%q: %q, %q", template, base, authority(base))
		}
		rt := route{own: []byte(authority(base))}
		if !rt.here([]byte(strings.ToUpper(want[1]))) || rt.here([]byte("x"+want[1])) || rt.here([]byte(want[1]+"x")) || rt.here(nil) {
			t.Errorf("%q: it does not know its own address", template)
		}
	}
	if l.Port = ""; l.base("") != "" || l.base("http://{member}") == "" {
		t.Error("a member without a proxy")
	}
	for to, ok := range map[string]bool{
		"http://{member}": true, "ftp://{member}": false, "http://{member}/": false, "http://": false, "{member}": false, "http://{host}": false, "http://a@{member}": false,
	} {
		cfg := DefaultConfig()
		cfg.Routes = []Route{DefaultRoute("shop")}
		cfg.Routes[0].RedirectTo = to
		if err := cfg.Validate(); ok != (err == nil) {
			t.Errorf("%q: %v", to, err)
		}
	}
}

// The own address of a member leads to routes that send clients there, and to
// others as before.
func TestRedirect_ownAddressAmongOtherRoutes(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	route := func(name, host, path string, redirect bool) Route {
		r := DefaultRoute("shop")
		r.Name, r.Host, r.Path, r.Redirect = name, host, path, redirect
		return r
	}
	cfg.Routes = []Route{
		route("any", "", "/", false), route("anystatic", "", "/static", false), route("sent", "shop.example.com", "/", true),
		route("sentadmin", "admin.example.com", "/admin", true), route("ten", "10.0.0.1", "/ten", false), route("other", "other.example.com", "/", false),
	}
	p, err := New(Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	p.SetPlaces("m1", map[member.ID]Place{"m1": {Address: "10.0.0.1", Port: "8780"}, "m2": {Address: "10.0.0.2", Port: "8780"}})
	for at, want := range map[string]string{
		"10.0.0.1:8780/": "sent", "10.0.0.1:8780/admin/x": "sentadmin", "10.0.0.1:8780/static/x": "anystatic", "10.0.0.1:8780/ten": "ten",
		"10.0.0.2:8780/": "any", "shop.example.com/": "sent", "admin.example.com/": "any", "other.example.com/static": "other", "x/": "any",
	} {
		host, path, _ := strings.Cut(at, "/")
		if rt := p.snap.Load().match([]byte(host), []byte("/"+path)); rt == nil || rt.Name != want {
			t.Errorf("%s leads to %v", at, rt)
		}
	}
}

func FuzzToken(f *testing.F) {
	keys, err := newTokenKeys([][]byte{[]byte(strings.Repeat("k", 32))})
	if err != nil {
		f.Fatal(err)
	}
	at := time.UnixMilli(1_800_000_000_000)
	good, _ := keys.seal("r", "http://a", "v1~1~2~x", "AAAAAAAAAAA", at)
	f.Add("/x?a=b", good)
	f.Add("/x?", "")
	f.Add("/a&b", good[:len(good)-1])
	f.Add("/?&_rondel=x&", "%00")
	f.Fuzz(func(t *testing.T, target, token string) {
		if p, err := keys.open("r", "http://a", []byte(token), at); err == nil && (p.id != "v1~1~2~x" || p.tag != "AAAAAAAAAAA") { // there is no other one
			t.Fatalf("%q is taken: %+v", token, p)
		}
		clean, cut := cutToken([]byte(target))
		if cut == nil && string(clean) != target || cut != nil && (len(clean) >= len(target) || !strings.HasPrefix(target, string(clean))) {
			t.Fatalf("%q is cut to %q and %q", target, clean, cut)
		}
		if target == "" || strings.Contains(token, "&") {
			return
		}
		sent := appendToken(nil, []byte(target), token)
		back, got := cutToken(sent)
		if string(back) != target || string(got) != token || got == nil {
			t.Fatalf("%q with %q came back as %q with %q", target, token, back, got)
		}
	})
}
