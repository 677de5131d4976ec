package httpapi

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/api"
)

func (h *harness) client(base string) *api.Client {
	h.t.Helper()
	c, err := api.NewClient(api.Config{Address: base})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(c.Close)
	return c
}

func TestStream_monitorFollowsTheLog(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.client(h.serve())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Agent().Monitor(ctx, "loud"); !api.HasCode(err, api.CodeBadRequest) {
		t.Errorf("unknown level: %v", err)
	}
	lines, err := c.Agent().Monitor(ctx, "warn")
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	h.log.Info("not told")
	h.log.Warn("told", "member", "m2")
	got, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "told: member=m2") || strings.Contains(got, "not told") {
		t.Errorf("log: %s", got)
	}
}

func TestStream_monitorShowsRequestsThatTheAgentDoesNotLog(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.log.SetLevel(hclog.Info)
	c := h.client(h.serve())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lines, err := c.Agent().Monitor(ctx, "debug")
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	h.do("GET", "/v1/ring", "")
	in := bufio.NewScanner(lines)
	for in.Scan() {
		if strings.Contains(in.Text(), "request: method=GET route=/v1/ring") {
			return
		}
	}
	t.Error("the request is not in the log: ", in.Err())
}

func TestStream_eventsTellOfChanges(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.client(h.serve())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := c.Agent().Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	next := func() api.Event {
		t.Helper()
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	h.cluster.mu.Lock()
	h.cluster.members[0].Sessions = 40
	h.cluster.mu.Unlock()
	if e := next(); e.Type != "sessions" || string(e.Data) != `{"m1":3,"m2":40}` {
		t.Errorf("event %s %s", e.Type, e.Data)
	}
	h.cluster.ringIndex.push()
	if e := next(); e.Type != "ring" || !strings.Contains(string(e.Data), `"Epoch":42`) {
		t.Errorf("event %s %s", e.Type, e.Data)
	}
	h.cluster.mu.Lock()
	h.cluster.members[0].Status = "failed"
	h.cluster.mu.Unlock()
	h.cluster.memberIndex.push()
	if e := next(); e.Type != "member" || !strings.Contains(string(e.Data), `"Status":"failed"`) {
		t.Errorf("event %s %s", e.Type, e.Data)
	}
}

func TestSeenState_tellsOnce(t *testing.T) {
	t.Parallel()
	s := &seenState{}
	m := []api.Member{{Name: "m1", Status: "alive"}, {Name: "m2", Status: "alive"}}
	if n := len(s.members(m)); n != 2 {
		t.Errorf("%d events at first, want 2", n)
	}
	m[1].Load.CPU = 1
	if n := len(s.members(m)); n != 0 {
		t.Errorf("%d events for load", n)
	}
	if got := s.members(m[:1]); len(got) != 1 || !strings.Contains(string(got[0].Data), `"left"`) {
		t.Errorf("events %v", got)
	}
	svc := []api.CatalogService{{Name: "shop", Instances: []api.CatalogInstance{{ID: "a", Load: 1}}}}
	s.services(svc)
	if n := len(s.services([]api.CatalogService{{Name: "shop", Instances: []api.CatalogInstance{{ID: "a", Load: 2}}}})); n != 0 {
		t.Errorf("%d events for an instance's load", n)
	}
	if n := len(s.services(nil)); n != 1 {
		t.Errorf("%d events for a service that has gone, want 1", n)
	}
}

func TestServer_runEndsStreamsAndWaits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.server.Run(ctx, l) }()
	c := h.client("http://" + l.Addr().String())
	stream, err := c.Agent().Monitor(t.Context(), "info")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	waited := make(chan error, 1)
	go func() {
		bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := c.Ring().Get(bounded, api.Wait{Index: 42, Max: time.Minute})
		waited <- err
	}()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Run does not end")
	}
	<-waited // answered or cut off, depending on how far it had come
}
