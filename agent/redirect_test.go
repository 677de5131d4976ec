package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/config"
)

// visitor is a browser that finds the shop's name at one agent, and each agent
// by its own.
type visitor struct {
	http.Client
	at   *Agent // where the shop's name leads; each member's own leads to it
	hops []string
}

func newVisitor(t *testing.T, s *site) *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{}
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, _ := net.SplitHostPort(addr)
		if host == "shop.example.com" {
			return (&net.Dialer{}).DialContext(ctx, network, proxyOf(v.at))
		}
		for _, a := range s.agents {
			if host == a.cfg.Load().Node.Name+".example.com" {
				return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(a.gossip.Self().Addr.String(), port))
			}
		}
		return nil, errors.New("nobody is called " + host)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	v.Client = http.Client{Jar: jar, Transport: tr, CheckRedirect: func(q *http.Request, via []*http.Request) error {
		v.hops = append(v.hops, q.URL.String())
		if len(via) > 4 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return v
}

func (v *visitor) get(t *testing.T, url string) (r reply, host string) {
	t.Helper()
	v.hops = nil
	q, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Close = true
	resp, err := v.Do(q)
	if err != nil { // as of a member that is gone, and not all know it
		return r, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header.Get("Shop"), resp.Header.Get("Seen-Session"), string(b), resp.Header}, resp.Request.URL.Host
}

// The balancer sends a client to the member that has its session; the session,
// and the log-in in it, goes along from address to address.
func TestRedirect_ofWholeAgents(t *testing.T) {
	t.Parallel()
	s := &site{}
	for range 3 {
		s.addAgent(t, 3, func(cfg *config.Runtime) {
			r := config.DefaultRoute("shop")
			r.Host, r.Redirect, r.RedirectTo = "shop.example.com", true, "http://{member}.example.com:{port}"
			cfg.Routes = []config.Route{r}
		})
	}
	for n, name := range []string{"shop1", "shop2", "shop3"} {
		s.addShop(t, name, s.agents[n])
	}
	const shop = "http://shop.example.com"
	s.await(t, "every agent sends clients to each", func() bool {
		got := map[string]bool{}
		for _, a := range s.agents {
			for range 3 {
				v := newVisitor(t, s)
				v.at = a
				q, _ := http.NewRequest("GET", shop, nil)
				q.Close = true
				resp, err := v.Transport.RoundTrip(q)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				host, token, _ := strings.Cut(resp.Header.Get("Location"), "?_rondel=")
				if token != "" {
					got[proxyOf(a)+" "+host] = true
				}
			}
		}
		return len(got) == 9
	})
	s.await(t, "no slot moves any more", s.rests) // clients would follow
	v := newVisitor(t, s)
	v.at = s.agents[0]
	first, host := v.get(t, shop+"/put?apples&x=%2F")
	if first.status != 200 || len(v.hops) != 2 || host == "shop.example.com" || v.hops[1] != "http://"+host+"/put?apples&x=%2F" {
		t.Fatalf("%d by way of %q", first.status, v.hops)
	}
	// The data flows past the balancer.
	if r, _ := v.get(t, "http://"+host+"/get"); len(v.hops) != 0 || r.seen != first.seen || !strings.Contains(r.body, `"cart":"apples`) {
		t.Fatalf("%+v by way of %q", r, v.hops)
	}
	// A log-in there, with a new id, is not undone by what the balancer knows: an id
	// of a later second is the newer one, whatever its owner is in time to say.
	second := time.Now().Unix()
	s.await(t, "another second begins", func() bool { return time.Now().Unix() > second })
	in, _ := v.get(t, "http://"+host+"/login")
	for _, a := range s.agents {
		v.at = a
		r, at := v.get(t, shop+"/get")
		if r.status != 200 || at != host || r.seen == first.seen || !strings.Contains(r.body, `"cart":"apples`) || len(v.hops) != 2 {
			t.Fatalf("after %s: %+v at %s by way of %q", in.body, r, at, v.hops)
		}
	}
	// Nor does a log-out come back. That a session has ended its owner may be too
	// busy to say in time, and the id that ended comes again, but nothing else.
	s.await(t, "the log-out is known where the client is sent", func() bool {
		v.get(t, "http://"+host+"/logout")
		r, _ := v.get(t, shop+"/get")
		if strings.Contains(r.body, "apples") {
			t.Fatalf("%+v", r)
		}
		return r.seen != first.seen
	})

	// The member is gone: the balancer sends its clients, with their session, to another.
	v = newVisitor(t, s)
	v.at = s.agents[1]
	first, host = v.get(t, shop+"/put?plums")
	for n, sh := range s.shops {
		if sh.name != first.shop {
			continue
		}
		s.stops[n]()
		v.at = s.agents[(n+1)%3]
		s.await(t, "the others know", func() bool {
			r, at := v.get(t, shop+"/get")
			return r.status == 200 && at != host && r.seen == first.seen && strings.Contains(r.body, `"cart":"plums"`)
		})
	}
}
