package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/rondel-project/rondel/api"
)

// fakeAgent is an agent of one member that keeps its sessions in a map: enough
// of one for examples.
type fakeAgent struct {
	mu       sync.Mutex // guards sessions
	sessions map[string]*api.Session
}

// newFakeAgent returns a client of a new fake agent; call stop at the end.
func newFakeAgent() (client *api.Client, stop func()) {
	f := &fakeAgent{sessions: make(map[string]*api.Session)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agent/members", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, []api.Member{{Name: "web1", Addr: "10.0.0.11", Port: 8701, Status: "alive", Role: "leader"}})
	})
	mux.HandleFunc("PUT /v1/agent/service/register", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, struct{}{}) })
	mux.HandleFunc("GET /v1/catalog/service/{name}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Rondel-Index", "7")
		answer(w, 200, []api.CatalogInstance{{ID: "shop:8080", Name: r.PathValue("name"), Member: "web1", Address: "10.0.0.11", Port: 8080, Health: "passing"}})
	})
	mux.HandleFunc("GET /v1/ring", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, api.RingInfo{Epoch: 7, Leader: "web1", Members: []api.RingMember{{Name: "web1", State: "up", Slots: 1024}}})
	})
	mux.HandleFunc("POST /v1/sessions", f.create)
	mux.HandleFunc("GET /v1/sessions/{id}", f.with(func(w http.ResponseWriter, _ *http.Request, s *api.Session) { answer(w, 200, s) }))
	mux.HandleFunc("PATCH /v1/sessions/{id}", f.with(f.patch))
	mux.HandleFunc("DELETE /v1/sessions/{id}", f.with(func(w http.ResponseWriter, r *http.Request, s *api.Session) {
		delete(f.sessions, s.ID)
		changed(w, s)
	}))
	mux.HandleFunc("POST /v1/sessions/{id}/attributes/{name}/incr", f.with(f.incr))
	server := httptest.NewServer(mux)
	client, err := api.NewClient(api.Config{Address: server.URL})
	if err != nil {
		panic(err)
	}
	return client, func() {
		client.Close()
		server.Close()
	}
}

func (f *fakeAgent) create(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &api.Session{}
	if body, _ := io.ReadAll(r.Body); json.Unmarshal(body, s) != nil {
		answer(w, 400, api.Error{Message: "broken JSON", Code: api.CodeBadRequest})
		return
	}
	s.ID, s.Version, s.Owner, s.Replicas = fmt.Sprintf("session-%d", len(f.sessions)+1), 1, "web1", []string{}
	f.sessions[s.ID] = s
	w.Header().Set("ETag", tag(s))
	answer(w, 201, s)
}

// with finds the session, and holds conditions against it.
func (f *fakeAgent) with(do func(http.ResponseWriter, *http.Request, *api.Session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		s := f.sessions[r.PathValue("id")]
		if s == nil {
			answer(w, 404, api.Error{Message: "no such session", Code: api.CodeUnknownSession})
			return
		}
		if want := r.Header.Get("If-Match"); want != "" && want != tag(s) {
			answer(w, 412, api.Error{Message: "the session has changed", Code: api.CodeVersionMismatch})
			return
		}
		w.Header().Set("ETag", tag(s))
		do(w, r, s)
	}
}

func (f *fakeAgent) patch(w http.ResponseWriter, r *http.Request, s *api.Session) {
	var in struct{ Attributes map[string]json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		answer(w, 400, api.Error{Message: err.Error(), Code: api.CodeBadRequest})
		return
	}
	for name, v := range in.Attributes {
		if string(v) == "null" {
			delete(s.Attributes, name)
		} else {
			s.Attributes[name] = v
		}
	}
	changed(w, s)
}

func (f *fakeAgent) incr(w http.ResponseWriter, r *http.Request, s *api.Session) {
	var in struct{ By, Old int }
	_ = json.NewDecoder(r.Body).Decode(&in)
	_ = json.Unmarshal(s.Attributes[r.PathValue("name")], &in.Old)
	s.Attributes[r.PathValue("name")] = json.RawMessage(fmt.Sprint(in.Old + in.By))
	s.Version++
	answer(w, 200, api.Mutation{ID: s.ID, Version: s.Version, Owner: s.Owner, Replicas: s.Replicas, Value: json.Number(fmt.Sprint(in.Old + in.By))})
}

func changed(w http.ResponseWriter, s *api.Session) {
	s.Version++
	w.Header().Set("ETag", tag(s))
	answer(w, 200, api.Mutation{ID: s.ID, Version: s.Version, Owner: s.Owner, Replicas: s.Replicas})
}

func tag(s *api.Session) string { return fmt.Sprintf(`"1-%d"`, s.Version) }

func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.WriteHeader(status)
	_, _ = io.Copy(w, strings.NewReader(string(b)))
}
