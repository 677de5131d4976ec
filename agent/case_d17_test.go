package agent

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/httpapi"
)

// at returns a client that is bound to a shop.
func (s *site) at(t *testing.T, a *Agent, sh *shop) (cookie string) {
	t.Helper()
	for range 100 {
		if cookie, r := s.client(t, a); r.shop == sh.name {
			return cookie
		}
	}
	t.Fatalf("no client came to %s", sh.name)
	return ""
}

// D-17: an instance that drains gets no new clients from any agent, keeps those
// it has until the deadline, and moves them then; drain can be undone.
func TestCase_D17_drainIsKnownToAllAgents(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, 3)
	sh := s.shops[1]
	backend := servicesBackend{sh.agent}
	cookie := s.at(t, s.agents[0], sh)
	if err := backend.SetMaintenance(sh.id, httpapi.Maintenance{Enable: true, Drain: true, Reason: "new version", Deadline: time.Hour}); err != nil {
		t.Fatal(err)
	}
	s.everywhere(t, "new clients go elsewhere", sh, false)
	for _, a := range s.agents {
		if r, cookies := s.ask(t, a, "/", cookie); r.status != 200 || r.shop != sh.name || len(cookies) != 0 {
			t.Errorf("a bound client got %d of %s, cookies %v", r.status, r.shop, cookies)
		}
		found := false
		for _, i := range (catalogBackend{a}).Instances() {
			if i.ID == sh.id {
				found = true
				if !i.Drain || i.Reason != "new version" || i.DrainUntil.IsZero() || i.Health != "passing" {
					t.Errorf("%+v", i)
				}
			}
		}
		if !found {
			t.Error("the instance is not in the catalog")
		}
	}
	if err := backend.SetMaintenance(sh.id, httpapi.Maintenance{Enable: true, Drain: true, Deadline: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	for _, a := range s.agents {
		s.await(t, "the client is moved, once", func() bool {
			r, cookies := s.ask(t, a, "/", cookie)
			if r.status != 200 {
				t.Fatalf("status %d", r.status)
			}
			return r.shop != sh.name && len(cookies) == 1
		})
	}
	if err := backend.SetMaintenance(sh.id, httpapi.Maintenance{Enable: false, Drain: true}); err != nil {
		t.Fatal(err)
	}
	s.everywhere(t, "new clients come again", sh, true)
}

// D-15: a weight that is set by API counts on all agents at once and moves
// nobody; with all weights 0 new clients are told so.
func TestCase_D15_weightByAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, 2)
	sh := s.shops[0]
	cookie := s.at(t, s.agents[1], sh)
	if err := (servicesBackend{sh.agent}).SetWeight(sh.id, 0); err != nil {
		t.Fatal(err)
	}
	s.everywhere(t, "new clients go elsewhere", sh, false)
	for _, a := range s.agents {
		if r, cookies := s.ask(t, a, "/", cookie); r.shop != sh.name || len(cookies) != 0 {
			t.Errorf("a bound client got %s, cookies %v", r.shop, cookies)
		}
	}
	other := s.shops[1]
	if err := (servicesBackend{other.agent}).SetWeight(other.id, 0); err != nil {
		t.Fatal(err)
	}
	for _, a := range s.agents {
		s.await(t, "nobody takes new clients", func() bool {
			r, _ := s.ask(t, a, "/", "")
			return r.status == 503 && strings.Contains(r.body, "weight 0") && r.header.Get("Retry-After") != ""
		})
		if r, _ := s.ask(t, a, "/", cookie); r.shop != sh.name {
			t.Errorf("a bound client got %s", r.shop)
		}
	}
}

// D-18: an instance gets nothing before its first success and nothing while it
// is critical; with all of them down the answer is 503 at once; and a hundred
// reloads change no state and fail no request.
func TestCase_D18_checksDecide(t *testing.T) {
	t.Parallel()
	var status, asked, probed atomic.Int32
	status.Store(500)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/health" {
			asked.Add(1)
			return
		}
		probed.Add(1)
		if q.Host != "shop.example.com" {
			w.WriteHeader(400)
			return
		}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(app.Close)
	addr := app.Listener.Addr().(*net.TCPAddr)
	s := &site{}
	s.addAgent(t, 1, func(cfg *config.Runtime) {
		cfg.Services = []config.Service{{
			ID: "shop", Name: "shop", Address: addr.IP.String(), Port: addr.Port, Weight: 100, Protocol: "http1",
			Checks: []config.Check{{
				// A machine that is busy is late with some answers, not with so many
				// one after the other.
				HTTP: "/health", Interval: time.Second, Timeout: 950 * time.Millisecond,
				Host: "shop.example.com", Status: "200-399", Rise: 2, Fall: 6,
			}},
		}}
	})
	a := s.agents[0]
	s.await(t, "it was probed", func() bool { return probed.Load() > 3 })
	if r, _ := s.ask(t, a, "/", ""); r.status != 503 || asked.Load() != 0 {
		t.Errorf("before the first success: %d", r.status)
	}
	status.Store(204)
	s.await(t, "it gets requests", func() bool { r, _ := s.ask(t, a, "/", ""); return r.status == 200 })

	since := func() string {
		c := (servicesBackend{a}).Services()[0].Checks[0]
		return fmt.Sprint(c.Status, c.Since)
	}
	before := since()
	for n := range 100 {
		cfg := *a.cfg.Load()
		if err := a.Reload(cfg); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			if r, _ := s.ask(t, a, "/", ""); r.status != 200 {
				t.Fatalf("after %d reloads: %d %s", n, r.status, r.body)
			}
		}
	}
	if now := since(); now != before {
		t.Errorf("%s became %s", before, now)
	}
	status.Store(500)
	s.await(t, "it is out", func() bool { r, _ := s.ask(t, a, "/", ""); return r.status == 503 })
	began := time.Now()
	if r, _ := s.ask(t, a, "/", ""); r.status != 503 || !strings.Contains(r.body, "healthy") || time.Since(began) > 5*time.Second {
		t.Errorf("all down: %d %q after %v", r.status, r.body, time.Since(began))
	}
}
