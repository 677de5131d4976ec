package agent

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/config"
)

// What a reload says that it has changed is so at the API, too: on connections
// that are open already as on others.
func TestReload_reachesTheAPI(t *testing.T) {
	t.Parallel()
	s := &site{}
	s.addAgent(t, 1, func(cfg *config.Runtime) { cfg.API.Hosts = []string{"old.example.com"} })
	a := s.agents[0]
	s.await(t, "a table", func() bool { _, err := (sessionsBackend{a}).Mint(); return err == nil })
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(method, path, host, body string) (int, string, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.doors.apiPorts[0].Addr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Host = host
		resp, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text), resp.Header.Get("Location")
	}
	status, text, path := ask("POST", "/v1/sessions", "", "{}")
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	hosts := func(when string, want map[string]int) {
		t.Helper()
		for host, want := range want {
			if status, text, _ := ask("GET", path, host, ""); status != want {
				t.Errorf("%s: %s gets %d %s, want %d", when, host, status, text, want)
			}
		}
	}
	large := strings.Repeat("x", 3<<20)
	hosts("at first", map[string]int{"old.example.com": 200, "new.example.com": 403})
	if status, text, _ := ask("PUT", path+"/attributes/large", "", large); status != 413 || !strings.Contains(text, "1048576") {
		t.Errorf("too much: %d %s", status, text)
	}
	next := *a.cfg.Load()
	next.API.Hosts, next.Session.MaxSize = []string{"new.example.com"}, 4<<20
	if err := a.Reload(next); err != nil {
		t.Fatal(err)
	}
	hosts("after the reload", map[string]int{"old.example.com": 403, "new.example.com": 200})
	if status, text, _ := ask("PUT", path+"/attributes/large", "", large); status != 200 {
		t.Errorf("not too much any more: %d %s", status, text)
	}
	if status, text, _ := ask("PUT", path+"/attributes/more", "", strings.Repeat(large, 4)); status != 413 || !strings.Contains(text, "4194304") {
		t.Errorf("too much again: %d %s", status, text)
	}
}

// An agent that found nobody joins whom a reload names.
func TestReload_looksForOthersAtOtherAddresses(t *testing.T) {
	t.Parallel()
	s := &site{}
	s.addAgent(t, 1)
	s.addAgent(t, 0, func(cfg *config.Runtime) { cfg.Join.Retry = nil })
	a := s.agents[1]
	s.await(t, "an agent that has looked for nobody", func() bool {
		resp, err := http.Get("http://" + a.doors.apiPorts[0].Addr().String() + "/v1/agent/members")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	next := *a.cfg.Load()
	next.Join.Retry = []string{s.agents[0].gossip.Self().Gossip().String()}
	if err := a.Reload(next); err != nil {
		t.Fatal(err)
	}
	for _, a := range s.agents {
		s.await(t, "both", func() bool { return len(a.roster.members()) == 2 })
	}
}
