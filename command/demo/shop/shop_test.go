package shop

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	session   = "s1-an-id-that-is-long-enough-to-be-shortened"
	deadAgent = "127.0.0.1:1" // nobody is there
)

// newShop returns a shop that does not run; its handlers are tried directly.
func newShop(t *testing.T, agents ...string) *Shop {
	t.Helper()
	s, err := New(Config{Name: "shop-1", Member: "agent-1", Listen: "127.0.0.1:0", Agents: agents, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.agents.close()
		s.listen.Close()
	})
	return s
}

type request struct {
	method, path string
	form         url.Values
	header       map[string]string
}

func (s *Shop) ask(r request) *httptest.ResponseRecorder {
	in := httptest.NewRequest(r.method, r.path, strings.NewReader(r.form.Encode()))
	if r.form != nil {
		in.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	in.Header.Set(sessionHeader, session)
	for name, value := range r.header {
		if value == "" {
			in.Header.Del(name)
			continue
		}
		in.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, in)
	return w
}

func addJSON(item, key string) request {
	return request{method: "POST", path: "/add?item=" + item, header: map[string]string{"Accept": "application/json", keyHeader: key}}
}

func TestShop_emptyCartOfANewSession(t *testing.T) {
	t.Parallel()
	_, agent := newFakeAgent(t)
	w := newShop(t, agent).ask(request{method: "GET", path: "/"})
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Cart: 0 things") {
		t.Fatalf("status %d:\n%s", w.Code, w.Body)
	}
}

func TestShop_addAndShow(t *testing.T) {
	t.Parallel()
	fake, agent := newFakeAgent(t)
	s := newShop(t, agent)
	for range 2 {
		w := s.ask(request{method: "POST", path: "/add", form: url.Values{"item": {"tea"}}})
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
			t.Fatalf("status %d to %q, want the page again", w.Code, w.Header().Get("Location"))
		}
	}
	if got := fake.item(session, "tea"); got != "2" {
		t.Errorf("counter %q, want 2", got)
	}
	page := s.ask(request{method: "GET", path: "/"}).Body.String()
	for _, want := range []string{"Cart: 2 things", "12.80", "shop-1", "agent-1", "<dd>m1</dd>", "m2, m3"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, session) {
		t.Error("the page shows the whole session id")
	}
	if strings.Contains(page, "<script") {
		t.Error("the page needs JavaScript")
	}
}

func TestShop_cartJSON(t *testing.T) {
	t.Parallel()
	_, agent := newFakeAgent(t)
	s := newShop(t, agent)
	w := s.ask(addJSON("cup", "k1"))
	var added Added
	if err := json.Unmarshal(w.Body.Bytes(), &added); err != nil || added.Count != 1 || added.Session != Digest(session) || added.Owner != "m1" {
		t.Fatalf("answer %s (%v)", w.Body, err)
	}
	w = s.ask(request{method: "GET", path: "/cart.json"})
	var cart Cart
	if err := json.Unmarshal(w.Body.Bytes(), &cart); err != nil || cart.Items["cup"] != 1 || cart.Session != Digest(session) || cart.Instance != "shop-1" || len(cart.Replicas) != 2 {
		t.Fatalf("answer %s (%v)", w.Body, err)
	}
}

func TestShop_repeatedKeyCountsOnce(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{"the client's key": keyHeader, "the proxy's request id": requestHeader} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake, agent := newFakeAgent(t)
			s := newShop(t, agent)
			for range 2 {
				s.ask(request{method: "POST", path: "/add?item=tea", header: map[string]string{header: "k"}})
			}
			if got := fake.item(session, "tea"); got != "1" {
				t.Errorf("counter %q, want 1", got)
			}
		})
	}
}

func TestShop_clientKeyWins(t *testing.T) {
	t.Parallel()
	fake, agent := newFakeAgent(t)
	newShop(t, agent).ask(request{method: "POST", path: "/add?item=tea", header: map[string]string{keyHeader: "mine", requestHeader: "theirs"}})
	if len(fake.keys) != 1 || fake.keys[0] != "mine" {
		t.Errorf("keys %q, want the client's", fake.keys)
	}
}

func TestShop_addsAtOnceAllCount(t *testing.T) {
	t.Parallel()
	fake, agent := newFakeAgent(t)
	s := newShop(t, agent)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { s.ask(addJSON("tea", "")) })
	}
	all.Wait()
	if got := fake.item(session, "tea"); got != "20" {
		t.Errorf("counter %q, want 20", got)
	}
}

func TestShop_remove(t *testing.T) {
	t.Parallel()
	fake, agent := newFakeAgent(t)
	s := newShop(t, agent)
	s.ask(addJSON("tea", "a"))
	s.ask(addJSON("tea", "b"))
	remove := request{method: "POST", path: "/remove", form: url.Values{"item": {"tea"}}, header: map[string]string{requestHeader: "r1"}}
	for _, want := range []string{"1", "", ""} {
		if w := s.ask(remove); w.Code != http.StatusSeeOther {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if got := fake.item(session, "tea"); got != want {
			t.Errorf("counter %q, want %q", got, want)
		}
		remove.header[requestHeader] += "x"
	}
}

func TestShop_removeSeesChangesInBetween(t *testing.T) {
	t.Parallel()
	fake, agent := newFakeAgent(t)
	s := newShop(t, agent)
	s.ask(addJSON("tea", "a"))
	once := true
	fake.between = func() { // somebody adds one more, once
		if once {
			once = false
			fake.sessions[session][itemPrefix+"tea"] = json.RawMessage("2")
			fake.version[session]++
		}
	}
	s.ask(request{method: "POST", path: "/remove?item=tea"})
	if got := fake.item(session, "tea"); got != "1" {
		t.Errorf("counter %q, want 1: one more and one less", got)
	}
}

func TestShop_empty(t *testing.T) {
	t.Parallel()
	fake, agent := newFakeAgent(t)
	s := newShop(t, agent)
	s.ask(addJSON("tea", "a"))
	s.ask(addJSON("cup", "b"))
	s.ask(request{method: "POST", path: "/empty"})
	if tea, cup := fake.item(session, "tea"), fake.item(session, "cup"); tea != "" || cup != "" {
		t.Errorf("left %q and %q", tea, cup)
	}
}

func TestShop_outlivesItsAgent(t *testing.T) {
	t.Parallel()
	fake, other := newFakeAgent(t)
	s := newShop(t, deadAgent, other)
	if w := s.ask(addJSON("tea", "k")); w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got := fake.item(session, "tea"); got != "1" {
		t.Errorf("counter %q, want 1", got)
	}
}

func TestShop_waitsForANewOwner(t *testing.T) {
	t.Parallel()
	fake, agent := newFakeAgent(t)
	fake.busy, fake.unknown = 2, 1
	s := newShop(t, agent)
	if w := s.ask(addJSON("tea", "k")); w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if got := fake.item(session, "tea"); got != "1" {
		t.Errorf("counter %q, want 1 though it was sent again", got)
	}
}

func TestShop_badRequests(t *testing.T) {
	t.Parallel()
	_, agent := newFakeAgent(t)
	s := newShop(t, agent)
	for name, c := range map[string]struct {
		in   request
		want int
	}{
		"not through a proxy":      {request{method: "GET", path: "/", header: map[string]string{sessionHeader: ""}}, http.StatusBadRequest},
		"JSON, not through one":    {request{method: "GET", path: "/cart.json", header: map[string]string{sessionHeader: ""}}, http.StatusBadRequest},
		"change, not through one":  {request{method: "POST", path: "/add?item=tea", header: map[string]string{sessionHeader: ""}}, http.StatusBadRequest},
		"unknown product":          {request{method: "POST", path: "/add?item=gold"}, http.StatusNotFound},
		"unknown product, removed": {request{method: "POST", path: "/remove?item=gold"}, http.StatusNotFound},
		"unknown page":             {request{method: "GET", path: "/gold"}, http.StatusNotFound},
		"adding by GET":            {request{method: "GET", path: "/add?item=tea"}, http.StatusMethodNotAllowed},
		"health":                   {request{method: "GET", path: "/health"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if w := s.ask(c.in); w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
		})
	}
}

func TestShop_noAgentAtAll(t *testing.T) {
	t.Parallel()
	s := newShop(t, deadAgent)
	in := httptest.NewRequest("GET", "/", nil)
	in.Header.Set(sessionHeader, session)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, in.WithContext(ctx))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "cannot be shown now") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestShop_registersAgainAndGoes(t *testing.T) {
	t.Parallel()
	fake, agent := newFakeAgent(t)
	s := newShop(t, agent)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	registered := func() bool {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		return fake.services["shop-1"] == s.cfg.Port
	}
	until(t, "registered", registered)
	fake.mu.Lock()
	clear(fake.services) // as an agent that was killed and came back
	fake.mu.Unlock()
	until(t, "registered again", registered)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if registered() {
		t.Error("it is still registered")
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("not %s in time", what)
		case <-tick.C:
		}
	}
}

func TestNew_clearErrors(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, cfg := range map[string]Config{
		"no agent":       {Listen: "127.0.0.1:0"},
		"no port":        {Listen: "127.0.0.1", Agents: []string{"127.0.0.1:1"}},
		"taken":          {Listen: taken.Addr().String(), Agents: []string{"127.0.0.1:1"}},
		"no such agent":  {Listen: "127.0.0.1:0", Agents: []string{"ftp://x"}},
		"not an address": {Listen: "nowhere.invalid:1", Agents: []string{"127.0.0.1:1"}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
