package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rondel-project/rondel/api"
)

// The client and the server are two halves of one contract: every call of the
// one against the other.
func TestClient_sessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.client(h.serve()).Sessions()
	ctx := t.Context()

	made, err := s.Create(ctx, api.SessionCreate{TTL: api.Duration(600e9), Group: "g", Attributes: map[string]any{"cart": []int{1}, "html": "<&>"}}, api.WithIdempotencyKey("k"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Create(ctx, api.SessionCreate{TTL: api.Duration(600e9), Group: "g", Attributes: map[string]any{"cart": []int{1}, "html": "<&>"}}, api.WithIdempotencyKey("k"))
	if err != nil || again.ID != made.ID {
		t.Errorf("created again: %v", err)
	}
	if made.TTL.String() != "10m" || string(made.Attributes["html"]) != `"<&>"` || made.ETag != `"7-1"` {
		t.Errorf("made %+v", made)
	}
	if _, err := s.Get(ctx, made.ID, api.WithIfNoneMatch(made.ETag)); !errors.Is(err, api.ErrNotModified) {
		t.Errorf("not modified: %v", err)
	}
	m, err := s.Patch(ctx, made.ID, map[string]any{"cart": nil, "n": 1, "pic": api.Binary{Base64: []byte{0, 0xff}, ContentType: "image/png"}}, api.WithIfMatch(made.ETag), api.WithAcks(2))
	if err != nil || m.Version != 2 || m.ETag != `"7-2"` || !slices.Equal(m.Replicas, []string{"m2", "m3"}) {
		t.Errorf("patch %+v, %v", m, err)
	}
	if _, err := s.Patch(ctx, made.ID, nil, api.WithIfMatch(made.ETag)); !api.HasCode(err, api.CodeVersionMismatch) || !api.HasStatus(err, 412) {
		t.Errorf("stale patch: %v", err)
	}
	if m, err = s.Incr(ctx, made.ID, "n", 41); err != nil || m.Value != "42" {
		t.Errorf("incr %+v, %v", m, err)
	}
	if m, err = s.Append(ctx, made.ID, "list", "x"); err != nil || m.Length == nil || *m.Length != 1 {
		t.Errorf("append %+v, %v", m, err)
	}
	value, kind, err := s.Attribute(ctx, made.ID, "pic")
	if err != nil || kind != "image/png" || !bytes.Equal(value, []byte{0, 0xff}) {
		t.Errorf("picture %q %q, %v", value, kind, err)
	}
	for _, name := range []string{"a/b", "..", "%", "é+ "} {
		if _, err := s.PutAttribute(ctx, made.ID, name, []byte(name), "text/plain"); err != nil {
			t.Errorf("put %q: %v", name, err)
		}
		if value, _, err := s.Attribute(ctx, made.ID, name); err != nil || string(value) != name {
			t.Errorf("get %q: %q, %v", name, value, err)
		}
		if _, err := s.DeleteAttribute(ctx, made.ID, name); err != nil {
			t.Errorf("delete %q: %v", name, err)
		}
	}
	if _, err := s.PutAttribute(ctx, made.ID, "empty", nil, ""); err != nil {
		t.Error(err)
	}
	got, err := s.Get(ctx, made.ID, api.WithStale(), api.WithTouch())
	if err != nil || !got.Stale || string(got.Attributes["empty"]) != `{"Base64":"","ContentType":"application/octet-stream"}` {
		t.Errorf("stale read %+v, %v", got, err)
	}
	if _, err := s.Touch(ctx, made.ID); err != nil {
		t.Error(err)
	}
	if m, err = s.Rotate(ctx, made.ID); err != nil || m.ID == made.ID {
		t.Errorf("rotate %+v, %v", m, err)
	}
	if _, err := s.Get(ctx, made.ID); !api.IsNotFound(err) || !api.HasCode(err, api.CodeUnknownSession) {
		t.Errorf("the old id: %v", err)
	}
	page, err := s.List(ctx, api.SessionList{Group: "g", Limit: 10})
	if err != nil || len(page) != 1 || page[0].ID != m.ID {
		t.Errorf("list %+v, %v", page, err)
	}
	if _, err := s.Put(ctx, m.ID, map[string]any{"only": true}); err != nil {
		t.Error(err)
	}
	if _, err := s.Delete(ctx, m.ID); err != nil {
		t.Error(err)
	}
}

func TestClient_cluster(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.client(h.serve())
	ctx := t.Context()
	check := func(what string, ok bool, err error) {
		t.Helper()
		if err != nil || !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	self, err := c.Agent().Self(ctx)
	check("self", self != nil && self.Member.Name == "m1", err)
	members, err := c.Agent().Members(ctx)
	check("members", len(members) == 2, err)
	info, index, err := c.Ring().Get(ctx, api.Wait{})
	check("ring", info.Epoch == 42 && index == 42, err)
	at, err := c.Ring().Locate(ctx, "a/b")
	check("locate", at.Slot == 3, err)
	services, index, err := c.Catalog().Services(ctx, api.Wait{Index: 1})
	check("services", len(services) == 2 && index == 9, err)
	instances, _, err := c.Catalog().Service(ctx, "shop", true, api.Wait{})
	check("service", len(instances) == 1, err)
	leader, err := c.Status().Leader(ctx)
	check("leader", leader == "10.0.0.1:8702", err)
	peers, err := c.Status().Peers(ctx)
	check("peers", len(peers) == 2, err)
	raft, err := c.Operator().RaftConfiguration(ctx)
	check("raft", raft.Leader == "m1", err)
	health, err := c.Health().Agent(ctx)
	check("health", health.Healthy, err)
	health, err = c.Health().Serving(ctx)
	check("serving", health.Healthy, err)
	local, err := c.Agent().Services(ctx)
	check("local", local != nil && len(local) == 0, err)
	metrics, err := c.Agent().Metrics(ctx)
	check("metrics", json.Valid(metrics), err)
	_, err = c.Agent().MetricsText(ctx)
	check("metrics text", true, err)
	_, err = c.Agent().Reload(ctx)
	check("reload", true, err)
	doc, err := c.Raw(ctx, "GET", "/v1/status/leader", nil, nil)
	check("raw", string(doc) == `"10.0.0.1:8702"`, err)

	a := c.Agent()
	for want, do := range map[string]func() error{
		"join [::1]:8701":     func() error { return a.Join(ctx, "[::1]:8701") },
		"leave true":          func() error { return a.Leave(ctx, true) },
		"force-leave m2 true": func() error { return a.ForceLeave(ctx, "m2", true) },
		"deregister a/b":      func() error { return a.Deregister(ctx, "a/b") },
		"maintenance a {Enable:true Drain:false Reason:why Deadline:0s}": func() error { return a.Maintenance(ctx, "a", true, "why") },
		"maintenance a {Enable:true Drain:true Reason:new Deadline:10m0s}": func() error {
			return a.Drain(ctx, "a", true, api.DrainOptions{Deadline: 10 * time.Minute, Reason: "new"})
		},
		"weight a 7":         func() error { return a.SetWeight(ctx, "a", 7) },
		"load a 0.25":        func() error { return a.ReportLoad(ctx, "a", 0.25) },
		"check a passing ok": func() error { return a.PassCheck(ctx, "a", "ok") },
		"check a warning ":   func() error { return a.WarnCheck(ctx, "a", "") },
		"check a critical ":  func() error { return a.FailCheck(ctx, "a", "") },
		"register {ID: Name:shop Address: Port:80 Weight:<nil> Backup:false Protocol: SendProxy: MaxConnections:0 SlowStart:0s Tags:[] Checks:[{ID: HTTP: TCP: TTL:10s Interval:0s Timeout:0s Method: Host: Scheme: Healthy: Warning: Contains: BodyLimit:0 Rise:0 Fall:0}]} weight -1": func() error {
			return a.Register(ctx, api.ServiceRegistration{Name: "shop", Port: 80, Checks: []api.ServiceCheck{{TTL: api.Duration(10e9)}}})
		},
	} {
		if err := do(); err != nil || h.cluster.lastCall() != want {
			t.Errorf("called %q, want %q, %v", h.cluster.lastCall(), want, err)
		}
	}
	h.cluster.mu.Lock()
	h.cluster.unready = []string{"no leader"}
	h.cluster.mu.Unlock()
	health, err = c.Health().Agent(ctx)
	check("unhealthy", !health.Healthy && slices.Equal(health.Reasons, []string{"no leader"}), err)
}
