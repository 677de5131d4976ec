package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/api"
)

// Streams are for one reader each: a slow one loses lines, and never holds up
// what is being told.
const (
	streamQueue = 512
	streamBeat  = 15 * time.Second
	streamWrite = 30 * time.Second // a reader that takes longer for one write is gone
	countEvery  = time.Second
)

// stream is an answer without an end.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (r *request) startStream(w http.ResponseWriter, contentType string) *stream {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &stream{w, http.NewResponseController(w)}
	s.control.Flush()
	return s
}

// send writes and flushes. It reports false when the reader has gone.
func (s *stream) send(b []byte) bool {
	s.control.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := s.w.Write(b); err != nil {
		return false
	}
	return s.control.Flush() == nil
}

// lines is a log's output that never blocks the logger.
type lines struct {
	queue chan []byte
	lost  atomic.Uint64
}

// Write takes one log line.
func (l *lines) Write(b []byte) (int, error) {
	select {
	case l.queue <- append([]byte(nil), b...):
	default:
		l.lost.Add(1)
	}
	return len(b), nil
}

func (s *Server) agentMonitor(w http.ResponseWriter, r *request) error {
	level := hclog.Info
	if name := r.query.Get("loglevel"); name != "" {
		if level = hclog.LevelFromString(name); level == hclog.NoLevel {
			return badRequest("?loglevel=%q: want trace, debug, info, warn or error", name)
		}
	}
	asJSON, err := r.flag("logjson")
	if err != nil {
		return err
	}
	out := &lines{queue: make(chan []byte, streamQueue)}
	sink := hclog.NewSinkAdapter(&hclog.LoggerOptions{Level: level, Output: out, JSONFormat: asJSON})
	s.o.Logs.RegisterSink(sink)
	defer s.o.Logs.DeregisterSink(sink)
	if level <= hclog.Debug {
		s.monitors.Add(1)
		defer s.monitors.Add(-1)
	}
	contentType := "text/plain; charset=utf-8"
	if asJSON {
		contentType = "application/x-ndjson"
	}
	stream := r.startStream(w, contentType)
	for {
		select {
		case line := <-out.queue:
			if lost := out.lost.Swap(0); lost > 0 && !asJSON {
				line = append(fmt.Appendf(nil, "(%d lines were dropped, this reader is too slow)\n", lost), line...)
			}
			if !stream.send(line) {
				return nil
			}
		case <-r.Context().Done():
			return nil
		case <-s.stopping.Done():
			return nil
		}
	}
}

// eventStream tells what has changed since the last look, not each step on the
// way: a reader that was slow sees the present.
func (s *Server) eventStream(w http.ResponseWriter, r *request) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()

	// The first look comes before the answer begins: what changes once a reader
	// has seen the answer, it is told.
	_, members := s.o.Members.Watch()
	_, ring := s.o.Ring.Watch()
	_, services := s.o.Catalog.Watch()
	seen := &seenState{}
	seen.members(s.members())
	seen.services(s.services())
	seen.sessions(s.sessionCounts())
	stream := r.startStream(w, "text/event-stream")
	counts := time.NewTicker(countEvery)
	defer counts.Stop()
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	for {
		var events []api.Event
		select {
		case <-members:
			_, members = s.o.Members.Watch()
			events = seen.members(s.members())
		case <-ring:
			_, ring = s.o.Ring.Watch()
			events = []api.Event{event("ring", s.ringInfo())}
		case <-services:
			_, services = s.o.Catalog.Watch()
			events = seen.services(s.services())
		case <-counts.C:
			events = seen.sessions(s.sessionCounts())
		case <-beat.C:
			if !stream.send([]byte(": still here\n\n")) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
		for _, e := range events {
			if !stream.send(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", e.Type, e.Data)) {
				return nil
			}
		}
	}
}

func (s *Server) sessionCounts() map[string]int {
	out := make(map[string]int)
	for _, m := range s.o.Members.Members() {
		out[m.Name] = m.Sessions
	}
	return out
}

// seenState is what a reader of events has been told.
type seenState struct {
	byName  map[string]api.Member
	catalog map[string]api.CatalogService
	counts  map[string]int
}

// members returns an event for each member that is new or has another status,
// role or address. Load alone is no event: it changes all the time.
func (s *seenState) members(now []api.Member) []api.Event {
	var out []api.Event
	next := make(map[string]api.Member, len(now))
	for _, m := range now {
		next[m.Name] = m
		old := s.byName[m.Name]
		if old.Status != m.Status || old.Role != m.Role || old.Addr != m.Addr || old.ID != m.ID {
			out = append(out, event("member", m))
		}
	}
	for name, m := range s.byName {
		if _, ok := next[name]; !ok {
			m.Status = "left"
			out = append(out, event("member", m))
		}
	}
	s.byName = next
	return out
}

// services returns an event for each service whose instances, or their health,
// are others. Counts and load are no event.
func (s *seenState) services(now []api.CatalogService) []api.Event {
	var out []api.Event
	next := make(map[string]api.CatalogService, len(now))
	for _, svc := range now {
		for i := range svc.Instances {
			in := &svc.Instances[i]
			in.Load, in.InFlight, in.NewSessions = 0, 0, 0
		}
		next[svc.Name] = svc
		if !reflect.DeepEqual(s.catalog[svc.Name], svc) {
			out = append(out, event("service", svc))
		}
	}
	for name := range s.catalog {
		if _, ok := next[name]; !ok {
			out = append(out, event("service", api.CatalogService{Name: name, Tags: []string{}, Instances: []api.CatalogInstance{}}))
		}
	}
	s.catalog = next
	return out
}

// sessions returns an event when some member holds another number of sessions.
func (s *seenState) sessions(now map[string]int) []api.Event {
	if reflect.DeepEqual(s.counts, now) {
		return nil
	}
	s.counts = now
	return []api.Event{event("sessions", now)}
}

func event(kind string, v any) api.Event {
	data, err := json.Marshal(v)
	if err != nil {
		// Only plain values of our own go in.
		panic(fmt.Sprintf("event %s: %v", kind, err))
	}
	return api.Event{Type: kind, Data: data}
}
