package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/api"
)

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
	other.srv = listenAlone(t, other)
	addr := other.srv.Listener.Addr().(*net.TCPAddr)
	err := b.Register(api.ServiceRegistration{ID: "other", Name: "other", Address: addr.IP.String(), Port: addr.Port})
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
		s.await(t, "a leader takes it up", func() bool {
			_, err := b.Drain(t.Context(), a.cfg.Load().Node.Name, on)
			if err != nil && !api.HasStatus(err, http.StatusServiceUnavailable) {
				t.Fatal(err)
			}
			return err == nil
		})
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
	s.await(t, "no slot moves any more", s.rests)
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
