package shop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeAgent is as much of an agent's API as the shop uses.
type fakeAgent struct {
	mu       sync.Mutex
	sessions map[string]map[string]json.RawMessage
	version  map[string]uint64
	answers  map[string]string // of keys already used
	keys     []string          // as they came
	services map[string]int    // registered: id to port
	busy     int               // so many calls about sessions get 503
	unknown  int               // so many changes happen and get 504
	between  func()            // runs before a conditional change is looked at
}

func newFakeAgent(t *testing.T) (*fakeAgent, string) {
	t.Helper()
	f := &fakeAgent{sessions: map[string]map[string]json.RawMessage{}, version: map[string]uint64{}, answers: map[string]string{}, services: map[string]int{}}
	server := httptest.NewServer(f.handler())
	t.Cleanup(server.Close)
	return f, server.URL
}

func (f *fakeAgent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/sessions/{id}", f.get)
	mux.HandleFunc("PATCH /v1/sessions/{id}", f.change(f.patch))
	mux.HandleFunc("POST /v1/sessions/{id}/attributes/{name}/incr", f.change(f.incr))
	mux.HandleFunc("GET /v1/agent/services", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		list := []map[string]any{}
		for id, port := range f.services {
			list = append(list, map[string]any{"ID": id, "Port": port})
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc("PUT /v1/agent/service/register", func(_ http.ResponseWriter, r *http.Request) {
		var in struct {
			ID   string
			Port int
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.services[in.ID] = in.Port
	})
	mux.HandleFunc("PUT /v1/agent/service/deregister/{id}", func(_ http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.services, r.PathValue("id"))
	})
	return mux
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"Error":"no","Code":%q}`, code)
}

// refuse answers 503 while the agent is busy; mu is held.
func (f *fakeAgent) refuseLocked(w http.ResponseWriter) bool {
	if f.busy == 0 {
		return false
	}
	f.busy--
	fail(w, http.StatusServiceUnavailable, "unavailable")
	return true
}

func (f *fakeAgent) get(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuseLocked(w) {
		return
	}
	id := r.PathValue("id")
	attributes, ok := f.sessions[id]
	if !ok {
		fail(w, http.StatusNotFound, "unknown_session")
		return
	}
	w.Header().Set("ETag", f.etag(id))
	_ = json.NewEncoder(w).Encode(map[string]any{"ID": id, "Version": f.version[id], "Attributes": attributes, "Owner": "m1", "Replicas": []string{"m2", "m3"}})
}

func (f *fakeAgent) etag(id string) string { return fmt.Sprintf(`"1-%d"`, f.version[id]) }

func (f *fakeAgent) change(do func(id string, r *http.Request) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.refuseLocked(w) {
			return
		}
		id := r.PathValue("id")
		if match := r.Header.Get("If-Match"); match != "" {
			if f.between != nil {
				f.between()
			}
			if match != f.etag(id) {
				fail(w, http.StatusPreconditionFailed, "version_mismatch")
				return
			}
		}
		key := r.Header.Get("Idempotency-Key")
		f.keys = append(f.keys, key)
		answer, done := f.answers[key+r.Method+r.URL.Path]
		if !done || key == "" {
			f.version[id]++
			answer = do(id, r)
			f.answers[key+r.Method+r.URL.Path] = answer
		}
		if f.unknown > 0 {
			f.unknown--
			fail(w, http.StatusGatewayTimeout, "outcome_unknown")
			return
		}
		fmt.Fprint(w, answer)
	}
}

func (f *fakeAgent) attributes(id string) map[string]json.RawMessage {
	if f.sessions[id] == nil {
		f.sessions[id] = map[string]json.RawMessage{}
	}
	return f.sessions[id]
}

func (f *fakeAgent) incr(id string, r *http.Request) string {
	var in struct{ By int }
	_ = json.NewDecoder(r.Body).Decode(&in)
	n, _ := strconv.Atoi(string(f.attributes(id)[r.PathValue("name")]))
	n += in.By
	f.attributes(id)[r.PathValue("name")] = json.RawMessage(strconv.Itoa(n))
	return fmt.Sprintf(`{"ID":%q,"Version":%d,"Owner":"m1","Replicas":["m2","m3"],"Value":%d}`, id, f.version[id], n)
}

func (f *fakeAgent) patch(id string, r *http.Request) string {
	var in struct{ Attributes map[string]json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&in)
	for name, value := range in.Attributes {
		if strings.TrimSpace(string(value)) == "null" {
			delete(f.attributes(id), name)
			continue
		}
		f.attributes(id)[name] = value
	}
	return fmt.Sprintf(`{"ID":%q,"Version":%d,"Owner":"m1","Replicas":[]}`, id, f.version[id])
}

func (f *fakeAgent) item(id, item string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.sessions[id][itemPrefix+item])
}
