package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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
	"github.com/rondel-project/rondel/agent/member"
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

	held, hold chan struct{} // of /later: it is under way, and may go on
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
	// A slot that nobody uses yet may have another owner in a moment, whom clients
	// then follow; and where an agent is in the ring is where its rounds begin.
	s.await(t, "no slot moves any more", s.rests)
}

func (s *site) addAgent(t testing.TB, expect int, configure ...func(*config.Runtime)) {
	t.Helper()
	name := fmt.Sprintf("m%d", len(s.agents)+1)
	loaded, err := config.Load(config.Options{
		Host: config.Host{Name: name},
		Flags: []config.Setting{
			{Option: "node_name", Value: name}, {Option: "data_dir", Value: "/nowhere"}, {Option: "bind", Value: "127.0.0.1"},
			// A machine that is busy with tests holds a member up for longer than a
			// faster one waits until it takes that for dead.
			{Option: "profile", Value: "wan"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := loaded.Runtime
	cfg.Node.DataDir = "" // in memory
	any := netip.AddrPortFrom(ownLoopback(), 0)
	n := &cfg.Network
	n.Bind, n.Advertise, n.Client, n.HTTP, n.Gossip, n.RPC = any.Addr(), any.Addr(), any.Addr(), any, any, any
	cfg.Proxy.HTTP = any
	cfg.Proxy.Timeouts.Connect = 30 * time.Second // who is late is not gone
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
	sh := &shop{name: name, agent: a, held: make(chan struct{}), hold: make(chan struct{})}
	sh.srv = listenAlone(t, sh)
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
	case "/later":
		close(sh.held)
		<-sh.hold
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
// for the client if there is a new one. While the agent cannot tell what became
// of it, it is the same again.
func (sh *shop) api(w http.ResponseWriter, q *http.Request, method, path, body string) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	status, b := 0, []byte(nil)
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		var err error
		if status, b, err = sh.once(q, method, path, body); err != nil {
			http.Error(w, err.Error(), 599)
			return
		}
		if status != 503 && status != 504 || time.Now().After(end) {
			break
		}
	}
	var answer struct{ ID string }
	if method == "POST" && json.Unmarshal(b, &answer) == nil {
		w.Header().Set("Rondel-Session", answer.ID)
	}
	w.WriteHeader(status)
	w.Write(b)
}

func (sh *shop) once(q *http.Request, method, path, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(q.Context(), method, "http://"+sh.agent.doors.apiPorts[0].Addr().String()+"/v1/sessions/"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", q.Header.Get("Rondel-Request-Id"))
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
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
		if r, _ := s.ask(t, a, "/", ""); r.status == 200 {
			got[r.shop] = true
		}
	}
	return len(got) == len(s.shops)
}

func (s *site) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !ok(); <-tick.C {
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

// rests reports whether all agents have one table, in which every slot is with
// its home, in all its copies, and all have their share.
func (s *site) rests() bool {
	t := s.agents[0].engine.View().Table
	for _, a := range s.agents {
		if a.engine.View().Table.Epoch != t.Epoch {
			return false
		}
	}
	owned := map[member.Number]int{}
	for h := range t.Slots {
		slot := &t.Slots[h]
		if slot.Owner != slot.Home || len(slot.InSync) < min(3, len(s.agents)) {
			return false
		}
		owned[slot.Owner]++
	}
	least, most := len(t.Slots), 0
	for i := range t.Members {
		n := owned[t.Members[i].Num]
		least, most = min(least, n), max(most, n)
	}
	return most-least <= 1
}

// ownLoopback returns an address of this machine's that nobody else uses: what
// is closed there stays closed, since no other test is given its port.
func ownLoopback() netip.Addr {
	part := func() byte { return byte(1 + rand.IntN(254)) }
	return netip.AddrFrom4([4]byte{127, part(), part(), part()})
}

// listenAlone starts a server at an address of its own, until the test ends.
func listenAlone(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(ownLoopback(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}
