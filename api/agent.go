package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Agent holds the calls about the agent that the client speaks to.
type Agent struct{ c *Client }

// Self returns the agent's configuration, its member entry and figures.
func (a Agent) Self(ctx context.Context) (*Self, error) {
	var out Self
	if _, err := a.c.read(ctx, call{method: http.MethodGet, path: "/v1/agent/self"}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Members returns all members that the agent knows, sorted by name.
func (a Agent) Members(ctx context.Context) ([]Member, error) {
	var out []Member
	_, err := a.c.read(ctx, call{method: http.MethodGet, path: "/v1/agent/members"}, &out)
	return out, err
}

// Join makes the agent join the cluster that addr is in.
func (a Agent) Join(ctx context.Context, addr string) error {
	return a.put(ctx, call{path: path("/v1/agent/join", addr), slow: true})
}

// Leave makes the agent hand over its sessions, leave the cluster and stop.
// Unless force is set it refuses where that would cost the cluster its quorum.
func (a Agent) Leave(ctx context.Context, force bool) error {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	return a.put(ctx, call{path: "/v1/agent/leave", query: q, slow: true})
}

// ForceLeave marks a failed member as left; prune also forgets it.
func (a Agent) ForceLeave(ctx context.Context, node string, prune bool) error {
	q := url.Values{}
	if prune {
		q.Set("prune", "true")
	}
	return a.put(ctx, call{path: path("/v1/agent/force-leave", node), query: q, slow: true})
}

// DrainMember makes a member hand over its sessions and take no new ones, or ends
// that; an empty node is the agent itself. It returns when that is agreed; the
// ring tells how far it is.
func (a Agent) DrainMember(ctx context.Context, node string, enable bool) (*DrainResult, error) {
	q := url.Values{"enable": {boolText(enable)}}
	if node != "" {
		q.Set("node", node)
	}
	var out DrainResult
	if _, err := a.c.read(ctx, call{method: http.MethodPut, path: "/v1/agent/drain", query: q, slow: true}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Reload makes the agent read its configuration files again.
func (a Agent) Reload(ctx context.Context) (*ReloadResult, error) {
	var out ReloadResult
	if _, err := a.c.read(ctx, call{method: http.MethodPut, path: "/v1/agent/reload"}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Services returns the instances that are registered with this agent, sorted
// by ID.
func (a Agent) Services(ctx context.Context) ([]Service, error) {
	var out []Service
	_, err := a.c.read(ctx, call{method: http.MethodGet, path: "/v1/agent/services"}, &out)
	return out, err
}

// Register registers an instance, or replaces the one with the same ID.
func (a Agent) Register(ctx context.Context, s ServiceRegistration) error {
	return a.put(ctx, call{path: "/v1/agent/service/register", body: s})
}

// Deregister takes an instance out.
func (a Agent) Deregister(ctx context.Context, id string) error {
	return a.put(ctx, call{path: path("/v1/agent/service/deregister", id)})
}

// Maintenance takes an instance out of traffic, or back in.
func (a Agent) Maintenance(ctx context.Context, id string, enable bool, reason string) error {
	q := url.Values{"enable": {boolText(enable)}}
	if reason != "" {
		q.Set("reason", reason)
	}
	return a.put(ctx, call{path: path("/v1/agent/service/maintenance", id), query: q})
}

// DrainOptions say more about a drain.
type DrainOptions struct {
	Deadline time.Duration // after it clients that are there are moved; 0: they stay
	Reason   string
}

// SetWeight gives an instance another weight, until its registration or the
// configuration says another one.
func (a Agent) SetWeight(ctx context.Context, id string, weight int) error {
	return a.put(ctx, call{path: path("/v1/agent/service/weight", id), body: map[string]int{"Weight": weight}})
}

// Drain makes an instance take no new sessions while it keeps those it has,
// or ends that.
func (a Agent) Drain(ctx context.Context, id string, enable bool, opt DrainOptions) error {
	q := url.Values{"enable": {boolText(enable)}, "drain": {"true"}}
	if opt.Deadline > 0 {
		q.Set("deadline", opt.Deadline.String())
	}
	if opt.Reason != "" {
		q.Set("reason", opt.Reason)
	}
	return a.put(ctx, call{path: path("/v1/agent/service/maintenance", id), query: q})
}

// ReportLoad tells how loaded an instance says it is: 0 idle, 1 full.
func (a Agent) ReportLoad(ctx context.Context, id string, load float64) error {
	return a.put(ctx, call{path: path("/v1/agent/service/load", id), body: LoadReport{Load: load}})
}

// PassCheck is the heart-beat of a TTL check.
func (a Agent) PassCheck(ctx context.Context, checkID, note string) error {
	return a.check(ctx, "pass", checkID, note)
}

// WarnCheck sets a TTL check to warning.
func (a Agent) WarnCheck(ctx context.Context, checkID, note string) error {
	return a.check(ctx, "warn", checkID, note)
}

// FailCheck sets a TTL check to critical.
func (a Agent) FailCheck(ctx context.Context, checkID, note string) error {
	return a.check(ctx, "fail", checkID, note)
}

func (a Agent) check(ctx context.Context, verdict, id, note string) error {
	q := url.Values{}
	if note != "" {
		q.Set("note", note)
	}
	return a.put(ctx, call{path: path("/v1/agent/check/"+verdict, id), query: q})
}

// Monitor streams the agent's log from a level on, one line each, until the
// caller closes the stream or ctx ends.
func (a Agent) Monitor(ctx context.Context, level string) (io.ReadCloser, error) {
	resp, err := a.c.do(ctx, call{
		method: http.MethodGet,
		path:   "/v1/agent/monitor",
		query:  url.Values{"loglevel": {level}},
		slow:   true,
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Metrics returns the agent's figures as one JSON document.
func (a Agent) Metrics(ctx context.Context) (json.RawMessage, error) {
	var out json.RawMessage
	_, err := a.c.read(ctx, call{method: http.MethodGet, path: "/v1/agent/metrics"}, &out)
	return out, err
}

// MetricsText returns the agent's figures in the Prometheus text format.
func (a Agent) MetricsText(ctx context.Context) (string, error) {
	resp, err := a.c.do(ctx, call{
		method: http.MethodGet,
		path:   "/v1/agent/metrics",
		query:  url.Values{"format": {"prometheus"}},
	})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := readAll(resp.Body)
	return string(text), err
}

// Events streams changes of members, ring, services and session counts; the
// caller closes the stream.
func (a Agent) Events(ctx context.Context) (*EventStream, error) {
	resp, err := a.c.do(ctx, call{method: http.MethodGet, path: "/v1/event/stream", slow: true})
	if err != nil {
		return nil, err
	}
	return newEventStream(resp.Body), nil
}

func (a Agent) put(ctx context.Context, in call) error {
	in.method = http.MethodPut
	_, err := a.c.read(ctx, in, nil)
	return err
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
