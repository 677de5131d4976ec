package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
)

// Ring holds the calls about the ring.
type Ring struct{ c *Client }

// Get returns the ring, and the index to wait with for its next change.
func (r Ring) Get(ctx context.Context, wait Wait) (*RingInfo, uint64, error) {
	var out RingInfo
	h, err := r.c.read(ctx, call{
		method: http.MethodGet,
		path:   "/v1/ring",
		query:  wait.query(nil),
		slow:   wait.Index > 0,
	}, &out)
	if err != nil {
		return nil, 0, err
	}
	return &out, index(h), nil
}

// Locate says who holds a session or any other key.
func (r Ring) Locate(ctx context.Context, key string) (*RingLocate, error) {
	var out RingLocate
	if _, err := r.c.read(ctx, call{method: http.MethodGet, path: path("/v1/ring/locate", key)}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Rebalance gives every member its share of slots at once, busy ones included.
// It returns when that is agreed; Moving of [RingInfo] tells what is left to do.
func (r Ring) Rebalance(ctx context.Context) (*MoveResult, error) {
	var out MoveResult
	if _, err := r.c.read(ctx, call{method: http.MethodPut, path: "/v1/ring/rebalance", slow: true}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Move gives slots of one member to another, empty ones first. Asking twice moves
// twice as many.
func (r Ring) Move(ctx context.Context, slots int, from, to string) (*MoveResult, error) {
	q := url.Values{"slots": {strconv.Itoa(slots)}, "from": {from}, "to": {to}}
	var out MoveResult
	if _, err := r.c.read(ctx, call{method: http.MethodPut, path: "/v1/ring/move", query: q, slow: true}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Catalog holds the calls about the services of all members.
type Catalog struct{ c *Client }

// Services returns all services, sorted by name, and the index to wait with.
func (g Catalog) Services(ctx context.Context, wait Wait) ([]CatalogService, uint64, error) {
	var out []CatalogService
	h, err := g.c.read(ctx, call{
		method: http.MethodGet,
		path:   "/v1/catalog/services",
		query:  wait.query(nil),
		slow:   wait.Index > 0,
	}, &out)
	return out, index(h), err
}

// Service returns the instances of one service, sorted by member and ID, and
// the index to wait with; with passing set only those that are.
func (g Catalog) Service(ctx context.Context, name string, passing bool, wait Wait) ([]CatalogInstance, uint64, error) {
	q := url.Values{}
	if passing {
		q.Set("passing", "true")
	}
	var out []CatalogInstance
	h, err := g.c.read(ctx, call{
		method: http.MethodGet,
		path:   path("/v1/catalog/service", name),
		query:  wait.query(q),
		slow:   wait.Index > 0,
	}, &out)
	return out, index(h), err
}

// Status holds the calls about the cluster's leader.
type Status struct{ c *Client }

// Leader returns the leader's address, "" when there is none now.
func (s Status) Leader(ctx context.Context) (string, error) {
	var out string
	_, err := s.c.read(ctx, call{method: http.MethodGet, path: "/v1/status/leader"}, &out)
	return out, err
}

// Peers returns the addresses of those who vote, sorted.
func (s Status) Peers(ctx context.Context) ([]string, error) {
	var out []string
	_, err := s.c.read(ctx, call{method: http.MethodGet, path: "/v1/status/peers"}, &out)
	return out, err
}

// Health holds the calls about an agent's health.
type Health struct{ c *Client }

// Agent says whether the cluster could now bear the restart of another agent,
// as this one sees it, and if not why.
func (h Health) Agent(ctx context.Context) (*AgentHealth, error) { return h.ask(ctx, nil) }

// Serving says whether the agent serves at all.
func (h Health) Serving(ctx context.Context) (*AgentHealth, error) {
	return h.ask(ctx, url.Values{"serving": {"true"}})
}

func (h Health) ask(ctx context.Context, q url.Values) (*AgentHealth, error) {
	var out AgentHealth
	_, err := h.c.read(ctx, call{method: http.MethodGet, path: "/v1/health/agent", query: q}, &out)
	var e *Error
	if errors.As(err, &e) && e.StatusCode == http.StatusServiceUnavailable && e.Message != "" {
		return &AgentHealth{Reasons: []string{e.Message}}, nil
	}
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// Operator holds the calls for those who run a cluster.
type Operator struct{ c *Client }

// RaftConfiguration returns the members that raft knows. It answers without a
// leader too; Leader is then empty.
func (o Operator) RaftConfiguration(ctx context.Context) (*RaftConfiguration, error) {
	var out RaftConfiguration
	if _, err := o.c.read(ctx, call{method: http.MethodGet, path: "/v1/operator/raft/configuration"}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// Raw is for endpoints that this package has no call for: it sends body, if
// not nil, as JSON, and returns the JSON answer.
func (c *Client) Raw(ctx context.Context, method, escapedPath string, query url.Values, body any) (json.RawMessage, error) {
	var out json.RawMessage
	_, err := c.read(ctx, call{method: method, path: escapedPath, query: query, body: body, slow: true}, &out)
	return out, err
}
