package agent

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/config"
	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/agent/session"
)

// An application's own session id is as good as Rondel's cookie: every agent
// knows what it is bound to, and neither the owner's end nor the instance's
// takes that away.
func TestCase_D13_learnedIDAtEveryAgentAndAfterAFailover(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, 3, func(cfg *config.Runtime) {
		r := config.DefaultRoute("shop")
		r.Sticky.Learn, r.Sticky.LearnPath = "JSESSIONID", "jsessionid"
		cfg.Routes = []config.Route{r}
	})
	first, _ := s.ask(t, s.agents[0], "/give?v-1.node", "")
	sessions := proxySessions{s.agents[1].engine}
	name, _ := sessions.Name("shop", []byte("v-1.node"))
	s.await(t, "the binding is kept", func() bool { // on a busy machine not all copies have it when the answer leaves, or none
		text, _ := sessions.Find(t.Context(), name)
		if strings.HasPrefix(text, first.seen+".") {
			return true
		}
		first, _ = s.ask(t, s.agents[0], "/give?v-1.node", "")
		return false
	})
	const bare = "-; JSESSIONID=v-1.node" // no cookie of ours
	same := func(what, path, cookie string) {
		t.Helper()
		for n, a := range s.living() {
			// On a busy machine an answer may take longer than an agent waits for it:
			// then the agent knows of no binding, and asks again a second later.
			s.await(t, fmt.Sprintf("%s, agent %d: to %s with %s", what, n, first.shop, first.seen), func() bool {
				r, set := s.ask(t, a, path, cookie)
				return r.shop == first.shop && r.seen == first.seen && len(set) == 1 && strings.HasPrefix(set[0].Value, first.seen+".")
			})
		}
	}
	same("cookie", "/", bare)
	same("path", "/cart;jsessionid=v-1.node", "")

	// What is kept of it is nobody's session.
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		s.await(t, method+" of a binding is answered", func() bool {
			q, err := http.NewRequest(method, "http://"+s.agents[1].doors.apiPorts[0].Addr().String()+"/v1/sessions/"+name, strings.NewReader(`{"Attributes":{}}`))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultTransport.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			switch resp.StatusCode {
			case 404, 400:
				return true
			case 503, 504:
			default:
				t.Fatalf("%s: %d", method, resp.StatusCode)
			}
			return false
		})
	}
	if r, _ := s.ask(t, s.agents[0], "/put?apples", bare); r.status != 200 || r.seen != first.seen {
		t.Fatalf("a write to %s: %+v", first.seen, r)
	}
	s.await(t, "all owners tell of their sessions", func() bool {
		list, err := sessionsBackend{s.agents[2]}.List(t.Context(), httpapi.ListOptions{})
		if err == nil && (len(list) != 1 || string(list[0].ID) != first.seen) {
			t.Fatalf("sessions %v", list)
		}
		return err == nil
	})
	if r, _ := s.ask(t, s.agents[2], "/", name+".AAAAAAAAAAA"); r.seen == name {
		t.Error("a client may bring the name of a binding as its id")
	}

	// Its owner ends, and the shop beside it with it.
	h, _ := session.ID(name).Slot()
	owner := s.agents[0].engine.View().Table.Slots[h].Owner
	for n, a := range s.agents {
		if a.engine.View().Self.Num == owner {
			s.agents[n] = nil
			s.stops[n]()
			s.shops[n].srv.Close()
			if s.shops[n].name == first.shop {
				s.await(t, "after the end of its shop the binding follows, for all", func() bool {
					shop := ""
					for _, b := range s.living() {
						r, _ := s.ask(t, b, "/get", bare)
						if r.status != 200 || r.seen != first.seen || shop != "" && r.shop != shop || !strings.Contains(r.body, `"cart":"apples"`) {
							return false
						}
						shop = r.shop
					}
					first.shop = shop
					return true
				})
			}
			break
		}
	}
	same("after a failover", "/", bare)

	// The session's end is its end. Who hears of it too late asks again.
	for _, a := range s.living() {
		s.await(t, "an ended session is bound to nothing", func() bool {
			s.ask(t, a, "/logout", bare)
			r, _ := s.ask(t, a, "/", bare)
			if r.seen == first.seen {
				return false
			}
			text, known := proxySessions{a.engine}.Find(t.Context(), name)
			return known && text == ""
		})
	}
}

// living are the agents that have not ended, by their number.
func (s *site) living() map[int]*Agent {
	out := map[int]*Agent{}
	for n, a := range s.agents {
		if a != nil {
			out[n] = a
		}
	}
	return out
}

// Every changed byte of a real cookie falls back to the policy, with another
// cookie in the same answer; nothing is dialled that a cookie names.
func TestCase_D13_everyFlippedByteFallsBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, 2)
	cookie, first := s.client(t, s.agents[0])
	for _, sh := range s.shops {
		addr := sh.srv.Listener.Addr().(*net.TCPAddr)
		if strings.Contains(cookie, addr.IP.String()) || strings.Contains(cookie, sh.name) {
			t.Errorf("%q tells where it leads", cookie)
		}
	}
	for i := range cookie {
		b := []byte(cookie)
		if b[i] ^= 1; b[i] == ';' || b[i] == ',' {
			continue
		}
		r, set := s.ask(t, s.agents[0], "/", string(b))
		if r.status != 200 || len(set) != 1 || set[0].Value == string(b) {
			t.Fatalf("byte %d flipped: %d, cookies %v", i, r.status, set)
		}
		if kept := strings.HasPrefix(set[0].Value, first.seen+"."); kept != (i > len(first.seen)) {
			t.Errorf("byte %d flipped: the session is kept: %v", i, kept)
		}
	}
}
