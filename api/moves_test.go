package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rondel-project/rondel/api"
)

func TestMoves(t *testing.T) {
	t.Parallel()
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.RequestURI()
		if r.URL.Query().Get("node") == "web9" {
			answer(w, 404, map[string]string{"Error": "no such member", "Code": "not_found"})
			return
		}
		answer(w, 200, map[string]any{"Node": "web1", "Draining": true, "Moved": 5, "Epoch": 7, "Joining": []string{"web4"}})
	}))
	defer server.Close()
	c, err := api.NewClient(api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for want, ask := range map[string]func() (any, error){
		"PUT /v1/agent/drain?enable=true":             func() (any, error) { r, err := c.Agent().DrainMember(t.Context(), "", true); return *r, err },
		"PUT /v1/agent/drain?enable=false&node=web+1": func() (any, error) { r, err := c.Agent().DrainMember(t.Context(), "web 1", false); return *r, err },
	} {
		if got, err := ask(); err != nil || got != (api.DrainResult{Node: "web1", Draining: true, Epoch: 7}) || asked != want {
			t.Errorf("%s: %+v, %v, asked %s", want, got, err, asked)
		}
	}
	for want, ask := range map[string]func() (*api.MoveResult, error){
		"PUT /v1/ring/rebalance":                      func() (*api.MoveResult, error) { return c.Ring().Rebalance(t.Context()) },
		"PUT /v1/ring/move?from=web1&slots=5&to=web2": func() (*api.MoveResult, error) { return c.Ring().Move(t.Context(), 5, "web1", "web2") },
	} {
		if got, err := ask(); err != nil || got.Moved != 5 || got.Epoch != 7 || len(got.Joining) != 1 || asked != want {
			t.Errorf("%s: %+v, %v, asked %s", want, got, err, asked)
		}
	}
	if _, err := c.Agent().DrainMember(t.Context(), "web9", true); !api.IsNotFound(err) {
		t.Errorf("drain of nobody: %v", err)
	}
}
