package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/api"
)

// site is three agents on real sockets and the instances of one shop.
type site struct {
	agents []*Agent
	stops  []func() // of each
	shops  []*shop
}

// shop is an instance that keeps what it knows in its user's session, at the
// agent beside it.
type shop struct {
	name  string
	id    string // of its registration
	agent *Agent
	srv   *httptest.Server
}

func newSite(t *testing.T, agents, shops int, configure ...func(*config.Runtime)) *site {
	t.Helper()
	s := &site{}
	for range agents {
		s.addAgent(t, agents, configure...)
	}
	for n := range shops {
		s.addShop(t, fmt.Sprintf("shop%d", n+1), s.agents[n%agents])
	}
	s.ready(t)
	return s
}

func (s *site) ready(t *testing.T) {
	t.Helper()
	s.await(t, "all proxies know all shops and can make ids", func() bool {
		for _, a := range s.agents {
			if len(a.doors.proxy.Counters()) != len(s.shops) {
				return false
			}
			if _, cookies := s.ask(t, a, "/", ""); len(cookies) != 1 {
				return false
			}
			if !s.allServe(t, a) {
				return false
			}
		}
		return true
	})
}

func (s *site) addAgent(t testing.TB, expect int, configure ...func(*config.Runtime)) {
	t.Helper()
	name := fmt.Sprintf("m%d", len(s.agents)+1)
	loaded, err := config.Load(config.Options{
		Host: config.Host{Name: name},
		Flags: []config.Setting{
			{Option: "node_name", Value: name}, {Option: "data_dir", Value: "/nowhere"}, {Option: "bind", Value: "127.0.0.1"},
			{Option: "profile", Value: "local"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := loaded.Runtime
	cfg.Node.DataDir = "" // in memory
	any := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	n := &cfg.Network
	n.Bind, n.Advertise, n.Client, n.HTTP, n.Gossip, n.RPC = any.Addr(), any.Addr(), any.Addr(), any, any, any
	cfg.Proxy.HTTP = any
	cfg.Join.BootstrapExpect, cfg.Join.Retry = expect, nil
	for _, a := range s.agents {
		cfg.Join.Retry = append(cfg.Join.Retry, a.gossip.Self().Gossip().String())
	}
	for _, f := range configure {
		f(&cfg)
	}
	a, err := New(cfg, hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: t.Output()}), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		a.doors.proxy.Close() // a test that failed may have left requests behind
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended: %v", name, err)
		}
	})
	t.Cleanup(stop)
	s.agents, s.stops = append(s.agents, a), append(s.stops, stop)
}

func (s *site) addShop(t *testing.T, name string, a *Agent) *shop {
	t.Helper()
	sh := &shop{name: name, agent: a}
	sh.srv = httptest.NewServer(sh)
	t.Cleanup(sh.srv.Close)
	s.shops = append(s.shops, sh)
	sh.register(t)
	return sh
}

func (sh *shop) register(t *testing.T) {
	t.Helper()
	sh.id = sh.name
	addr := sh.srv.Listener.Addr().(*net.TCPAddr)
	err := servicesBackend{sh.agent}.Register(api.ServiceRegistration{
		ID: sh.id, Name: "shop", Address: addr.IP.String(), Port: addr.Port,
		Checks: []api.ServiceCheck{{TTL: api.Duration(time.Hour)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	sh.feels(t, "passing")
}

// feels reports the shop's health. Nobody asks it: a machine that is busy with
// tests would be late now and then.
func (sh *shop) feels(t *testing.T, status string) {
	t.Helper()
	if err := (servicesBackend{sh.agent}).Report(sh.id, status, ""); err != nil {
		t.Fatal(err)
	}
}

// ServeHTTP implements http.Handler.
func (sh *shop) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	id := q.Header.Get("Rondel-Session")
	w.Header().Set("Shop", sh.name)
	w.Header().Set("Seen-Session", id)
	switch q.URL.Path {
	case "/put":
		sh.api(w, q, "PATCH", id, `{"Attributes":{"cart":"`+q.URL.RawQuery+`"}}`)
	case "/get":
		sh.api(w, q, "GET", id, "")
	case "/login":
		sh.api(w, q, "POST", id+"/rotate", "")
	case "/logout":
		w.Header().Set("Rondel-Session", "drop")
		sh.api(w, q, "DELETE", id, "")
	case "/give":
		http.SetCookie(w, &http.Cookie{Name: "JSESSIONID", Value: q.URL.RawQuery, Path: "/"})
	case "/headers":
		json.NewEncoder(w).Encode(q.Header)
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		io.WriteString(w, "data: first\n\n")
		w.(http.Flusher).Flush()
		<-q.Context().Done()
	case "/socket":
		c, err := websocket.Accept(w, q, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, b, err := c.Read(q.Context())
			if err != nil || c.Write(q.Context(), kind, append([]byte(sh.name+" "), b...)) != nil {
				return
			}
		}
	}
}

// api asks the agent beside the shop and answers what it answers, with the id
// for the client if there is a new one.
func (sh *shop) api(w http.ResponseWriter, q *http.Request, method, path, body string) {
	r, err := http.NewRequestWithContext(q.Context(), method, "http://"+sh.agent.doors.apiPorts[0].Addr().String()+"/v1/sessions/"+path, strings.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), 599)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", q.Header.Get("Rondel-Request-Id"))
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		http.Error(w, err.Error(), 599)
		return
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	var answer struct{ ID string }
	if method == "POST" && json.Unmarshal(b, &answer) == nil {
		w.Header().Set("Rondel-Session", answer.ID)
	}
	w.WriteHeader(resp.StatusCode)
	w.Write(b)
}

type reply struct {
	status int
	shop   string
	seen   string // the session that the shop was told of
	body   string
	header http.Header
}

func proxyOf(a *Agent) string { return a.doors.proxyPorts[0].Addr().String() }

// ask sends a request of its own connection to an agent's proxy.
func (s *site) ask(t *testing.T, a *Agent, path, cookie string) (reply, []*http.Cookie) {
	t.Helper()
	q, err := http.NewRequest("GET", "http://"+proxyOf(a)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Close = true
	if cookie != "" {
		q.Header.Set("Cookie", "RONDEL="+cookie)
	}
	q.Header.Set("X-Forwarded-For", "203.0.113.9")
	q.Header.Set("Rondel-Session", "of my own")
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header.Get("Shop"), resp.Header.Get("Seen-Session"), string(b), resp.Header}, resp.Cookies()
}

// client makes a new client by way of a and returns its cookie's value.
func (s *site) client(t *testing.T, a *Agent) (cookie string, first reply) {
	t.Helper()
	r, cookies := s.ask(t, a, "/", "")
	if r.status != 200 || len(cookies) != 1 {
		t.Fatalf("a new client got %d and cookies %v", r.status, cookies)
	}
	return cookies[0].Value, r
}

// spread makes n new clients by way of a and counts which shop each one got.
func (s *site) spread(t *testing.T, a *Agent, n int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		_, r := s.client(t, a)
		got[r.shop]++
	}
	return got
}

func (s *site) allServe(t *testing.T, a *Agent) bool {
	t.Helper()
	got := map[string]bool{}
	for range s.shops {
		r, _ := s.ask(t, a, "/", "")
		got[r.shop] = r.status == 200
	}
	return len(got) == len(s.shops)
}

func (s *site) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// everywhere waits until each agent's proxy gives new clients to a shop, or to
// all but that one, and says how long that took.
func (s *site) everywhere(t *testing.T, what string, sh *shop, serves bool) {
	t.Helper()
	began := time.Now()
	for _, a := range s.agents {
		s.await(t, what, func() bool {
			for range 2 * len(s.shops) {
				if r, _ := s.ask(t, a, "/", ""); r.shop == sh.name {
					return serves
				}
			}
			return !serves
		})
	}
	t.Logf("%s: everywhere after %s", what, time.Since(began).Round(time.Millisecond))
}

func TestProxy_ofWholeAgents(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, 4)
	for _, story := range []struct {
		name string
		run  func(*testing.T, *site)
	}{
		{"new clients are spread evenly", newClientsAreSpreadEvenly},
		{"a cookie is good at every agent", cookieIsGoodEverywhere},
		{"what changes reaches every proxy", changesReachEveryProxy},
		{"a member drains", memberDrains},
		{"a session from its first write to its end", sessionFlow},
		{"what the shop is told of the client", forwardedHeaders},
		{"event streams and sockets", streamsAndSockets},
		{"requests are counted", requestsAreCounted},
		{"an instance dies", instanceDies},
	} {
		t.Run(story.name, func(t *testing.T) { story.run(t, s) })
	}
}

// A lone service has the route that matches everything, also while it has no
// instance; a second service does not take its users away.
func TestProxy_loneService(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 1)
	b := servicesBackend{s.agents[0]}
	status := func(what string, status int, shop string) {
		t.Helper()
		var r reply
		s.await(t, what, func() bool {
			r, _ = s.ask(t, s.agents[0], "/", "")
			return r.status == status && r.shop == shop
		})
	}
	if err := b.Deregister(s.shops[0].id); err != nil {
		t.Fatal(err)
	}
	status("503 without an instance", 503, "")
	s.shops[0].register(t)
	status("back again", 200, "shop1")
	other := &shop{name: "other", agent: s.agents[0]}
	other.srv = httptest.NewServer(other)
	t.Cleanup(other.srv.Close)
	err := b.Register(api.ServiceRegistration{ID: "other", Name: "other", Address: "127.0.0.1", Port: other.srv.Listener.Addr().(*net.TCPAddr).Port})
	if err != nil {
		t.Fatal(err)
	}
	s.await(t, "the proxy knows both", func() bool { return len(s.agents[0].doors.proxy.Counters()) == 2 })
	for range 4 {
		if r, _ := s.ask(t, s.agents[0], "/", ""); r.shop != "shop1" {
			t.Errorf("a user of the first went to %q", r.shop)
		}
	}
	if err := b.Deregister(s.shops[0].id); err != nil {
		t.Fatal(err)
	}
	status("the one that is left", 200, "other")
}

func newClientsAreSpreadEvenly(t *testing.T, s *site) {
	for name, n := range s.spread(t, s.agents[0], 100) {
		if n != 25 {
			t.Errorf("%s got %d of 100", name, n)
		}
	}
	total := map[string]int{}
	for n, a := range s.agents {
		share := 33 + n/2 // 33 + 33 + 34
		for name, got := range s.spread(t, a, share) {
			if got < share/4 || got > share/4+1 {
				t.Errorf("by way of agent %d %s got %d of %d", n, name, got, share)
			}
			total[name] += got
		}
	}
	for name, got := range total {
		if got < 25-len(s.agents) || got > 25+len(s.agents) {
			t.Errorf("%s got %d of 100 over all agents", name, got)
		}
	}
}

func cookieIsGoodEverywhere(t *testing.T, s *site) {
	for range len(s.shops) {
		cookie, first := s.client(t, s.agents[0])
		for _, a := range s.agents {
			if r, set := s.ask(t, a, "/", cookie); r.shop != first.shop || r.seen != first.seen || len(set) != 0 {
				t.Errorf("from %s with %s to %s with %s, cookies %v", first.shop, first.seen, r.shop, r.seen, set)
			}
		}
	}
}

func changesReachEveryProxy(t *testing.T, s *site) {
	sh := s.shops[3]
	b := servicesBackend{sh.agent}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sh.feels(t, "critical")
	s.everywhere(t, "a check fails", sh, false)
	sh.feels(t, "passing")
	s.everywhere(t, "the check passes", sh, true)

	cookie := ""
	s.await(t, "a client of it", func() bool {
		var r reply
		cookie, r = s.client(t, s.agents[0])
		return r.shop == sh.name
	})
	must(b.SetMaintenance(sh.id, httpapi.Maintenance{Drain: true, Enable: true}))
	s.everywhere(t, "drain", sh, false)
	for _, a := range s.agents {
		if r, set := s.ask(t, a, "/", cookie); r.shop != sh.name || len(set) != 0 {
			t.Errorf("a client of a draining shop went to %s, cookies %v", r.shop, set)
		}
	}
	must(b.SetMaintenance(sh.id, httpapi.Maintenance{Drain: true, Enable: false}))
	s.everywhere(t, "drain undone", sh, true)
	must(b.SetMaintenance(sh.id, httpapi.Maintenance{Enable: true}))
	s.everywhere(t, "maintenance", sh, false)
	if r, set := s.ask(t, s.agents[1], "/", cookie); r.shop == sh.name || len(set) != 1 {
		t.Errorf("a client of a shop in maintenance went to %s, cookies %v", r.shop, set)
	}
	must(b.SetMaintenance(sh.id, httpapi.Maintenance{Enable: false}))
	s.everywhere(t, "maintenance over", sh, true)
	must(b.Deregister(sh.id))
	s.everywhere(t, "deregistered", sh, false)
	sh.register(t)
	s.everywhere(t, "registered", sh, true)
}

// memberDrains drains one member after the other: new clients go elsewhere, and
// clients there are served, as long as there is an elsewhere.
func memberDrains(t *testing.T, s *site) {
	sh := s.shops[1]
	b := movesBackend{s.agents[0]}
	drain := func(a *Agent, on bool) {
		t.Helper()
		if _, err := b.Drain(t.Context(), a.cfg.Load().Node.Name, on); err != nil {
			t.Fatal(err)
		}
	}
	cookie := ""
	s.await(t, "a client of it", func() bool {
		var r reply
		cookie, r = s.client(t, s.agents[0])
		return r.shop == sh.name
	})
	drain(sh.agent, true)
	s.everywhere(t, "drain of a member", sh, false)
	for _, a := range s.agents {
		if r, _ := s.ask(t, a, "/", cookie); r.status != 200 {
			t.Errorf("a client of a shop beside a draining agent gets %d", r.status)
		}
		if _, r := s.client(t, a); r.status != 200 {
			t.Errorf("a new client gets %d", r.status)
		}
	}
	drain(sh.agent, false)
	s.everywhere(t, "the member takes clients again", sh, true)
}

func sessionFlow(t *testing.T, s *site) {
	ask := func(a *Agent, path, cookie string, status int, part string) []*http.Cookie {
		t.Helper()
		r, set := s.ask(t, a, path, cookie)
		if r.status != status || !strings.Contains(r.body, part) {
			t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
		if r.header.Get("Rondel-Session") != "" {
			t.Errorf("%s: the client sees %q", path, r.header.Get("Rondel-Session"))
		}
		return set
	}
	cookie, first := s.client(t, s.agents[1])
	ask(s.agents[1], "/get", cookie, 404, "unknown_session")
	ask(s.agents[2], "/put?apples", cookie, 200, `"Version":1`)
	ask(s.agents[0], "/get", cookie, 200, `"cart":"apples"`)

	set := ask(s.agents[0], "/login", cookie, 200, `"Version":`)
	if len(set) != 1 || strings.HasPrefix(set[0].Value, first.seen) {
		t.Fatalf("after rotation: cookies %v", set)
	}
	rotated := set[0].Value
	ask(s.agents[2], "/get", rotated, 200, `"cart":"apples"`)
	ask(s.agents[2], "/get", cookie, 404, "unknown_session")

	set = ask(s.agents[1], "/logout", rotated, 200, "")
	if len(set) != 1 || set[0].MaxAge >= 0 || set[0].Value != "" || set[0].Path != "/" {
		t.Fatalf("after the end: cookies %v", set)
	}
	ask(s.agents[0], "/put?pears", rotated, 404, "unknown_session")
}

func forwardedHeaders(t *testing.T, s *site) {
	cookie, first := s.client(t, s.agents[0])
	r, _ := s.ask(t, s.agents[2], "/headers", cookie)
	var h http.Header
	if err := json.Unmarshal([]byte(r.body), &h); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": proxyOf(s.agents[2]),
		"Rondel-Session": first.seen, "Rondel-Request-Id": r.header.Get("Rondel-Request-Id"),
	} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if f := h.Get("Forwarded"); !strings.HasPrefix(f, `for="127.0.0.1:`) {
		t.Errorf("Forwarded is %q", f)
	}
}

func streamsAndSockets(t *testing.T, s *site) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, "GET", "http://"+proxyOf(s.agents[0])+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	event := make([]byte, len("data: first\n\n"))
	if _, err := io.ReadFull(resp.Body, event); err != nil || !bytes.HasPrefix(event, []byte("data: first")) {
		t.Errorf("got %q, %v", event, err)
	}
	resp.Body.Close()

	c, resp, err := websocket.Dial(ctx, "ws://"+proxyOf(s.agents[1])+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	set := resp.Cookies()
	if len(set) != 1 {
		t.Fatalf("cookies of a handshake: %v", set)
	}
	if err := c.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	_, b, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := s.ask(t, s.agents[2], "/", set[0].Value)
	if want := r.shop + " hello"; string(b) != want {
		t.Errorf("the socket answers %q, the client's shop is %s", b, r.shop)
	}
	c.Close(websocket.StatusNormalClosure, "")
	s.await(t, "nothing is under way", func() bool {
		return s.agents[0].doors.proxy.Totals().InFlight == 0 && s.agents[1].doors.proxy.Totals().InFlight == 0
	})
}

func requestsAreCounted(t *testing.T, s *site) {
	families, err := s.agents[0].metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "rondel_proxy_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["route"] == "shop" && labels["class"] == "2xx" && m.GetCounter().GetValue() >= 100 {
				return
			}
		}
	}
	t.Error("the figures do not tell of a hundred requests of route shop")
}

// instanceDies is the last story: the shop does not come back.
func instanceDies(t *testing.T, s *site) {
	cookie, first := s.client(t, s.agents[0])
	s.ask(t, s.agents[1], "/put?plums", cookie)
	for _, sh := range s.shops {
		if sh.name == first.shop {
			sh.srv.CloseClientConnections()
			sh.srv.Close()
		}
	}
	r, set := s.ask(t, s.agents[0], "/get", cookie)
	if r.status != 200 || r.shop == first.shop || r.seen != first.seen || !strings.Contains(r.body, `"cart":"plums"`) {
		t.Fatalf("after %s: %d from %s with %s: %s", first.shop, r.status, r.shop, r.seen, r.body)
	}
	if len(set) != 1 || set[0].Value == cookie {
		t.Fatalf("cookies %v", set)
	}
	for _, a := range s.agents {
		// Whoever still comes with the old cookie goes to the same one.
		if other, again := s.ask(t, a, "/get", cookie); other.shop != r.shop || len(again) != 1 || again[0].Value != set[0].Value {
			t.Errorf("another agent sends the client to %s, not %s; cookies %v", other.shop, r.shop, again)
		}
		if other, again := s.ask(t, a, "/get", set[0].Value); other.shop != r.shop || len(again) != 0 {
			t.Errorf("rebound again to %s, cookies %v", other.shop, again)
		}
	}
}
