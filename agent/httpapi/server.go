package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/rondel-project/rondel/agent/internal/netloop"
	"github.com/rondel-project/rondel/api"
)

// Defaults of Options.
const (
	DefaultMaxSession = 1 << 20
	shutdownTime      = 5 * time.Second
)

// Options holds the parts that the API speaks for. All interfaces are needed.
type Options struct {
	Logger hclog.Logger

	Process  Process
	Members  Members
	Ring     Ring
	Moves    Moves
	Sessions Sessions
	Services Services
	Checks   Checks
	Catalog  Catalog
	Raft     Raft
	Logs     Logs
	Metrics  prometheus.Gatherer

	Node       string       // this agent's name, allowed as Host
	Hosts      []string     // api.hosts
	MaxSession int          // session.max_size; 0: DefaultMaxSession
	Page       http.Handler // answers outside /v1; nil: 404

	Loops *netloop.Pool // carry connections that ask for little; nil: none
}

// Server answers the HTTP API.
type Server struct {
	log      hclog.Logger
	o        Options
	rules    atomic.Pointer[rules]
	tree     *node
	creates  *creates
	buffers  sync.Pool       // of *[]byte, in which answers are written
	stopping context.Context // ends with Run, and ends streams and waits
	stop     context.CancelFunc

	monitors atomic.Int32 // readers of the log who want each request
}

// New returns a server that serves nothing until Run.
func New(o Options) *Server {
	s := &Server{
		log:     o.Logger.Named("http"),
		o:       o,
		creates: newCreates(),
	}
	s.Reload(o.Hosts, o.MaxSession)
	s.buffers.New = func() any { return new([]byte) }
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.tree = newTree(s.table())
	return s
}

// rules are what a reload changes.
type rules struct {
	guard      guard
	maxSession int
}

// Reload puts other values of api.hosts and session.max_size in force, as Options
// has them.
func (s *Server) Reload(hosts []string, maxSession int) {
	if maxSession == 0 {
		maxSession = DefaultMaxSession
	}
	s.rules.Store(&rules{newGuard(s.o.Node, hosts), maxSession})
}

// Run serves on the listeners until ctx ends, then lets requests that have
// begun finish for a few seconds. It closes the listeners and returns when all
// its goroutines have ended. It can be called once.
func (s *Server) Run(ctx context.Context, listeners ...net.Listener) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	d := newDoor(requests, s.log, s, s.maxBody)
	group, ctx := errgroup.WithContext(ctx)
	if s.o.Loops != nil {
		d.loops = newLoopServer(s.o.Loops, s, d)
		group.Go(func() error { return d.loops.run(ctx) })
	}
	for _, l := range listeners {
		group.Go(func() error { return d.accept(l) })
	}
	group.Go(d.serveRest)
	group.Go(func() error {
		<-ctx.Done()
		s.stop()
		bounded, done := context.WithTimeout(requests, shutdownTime)
		defer done()
		return d.stop(bounded, listeners, cancel)
	})
	return group.Wait()
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	req := newRequest(r)
	out := &statusWriter{ResponseWriter: w}
	pattern, err := s.serve(out, req)
	if err != nil {
		e := toAPI(err)
		if e.StatusCode == http.StatusInternalServerError {
			s.log.Error("request failed", "method", r.Method, "route", pattern, "error", err)
		}
		if !out.begun() {
			writeError(out, req, e)
		}
	}
	if s.tells() {
		// The path holds session ids; the route does not.
		s.log.Debug("request", "method", r.Method, "route", pattern, "status", out.status, "duration", time.Since(start))
	}
}

// tells reports whether somebody reads of each request.
func (s *Server) tells() bool { return s.log.IsDebug() || s.monitors.Load() > 0 }

// serve finds the route and runs it. A panic in a handler costs this request
// only.
func (s *Server) serve(w *statusWriter, r *request) (pattern string, err error) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p == http.ErrAbortHandler:
			panic(p)
		default:
			s.log.Error("panic in a request", "route", pattern, "panic", p, "stack", string(debug.Stack()))
			err = failure(http.StatusInternalServerError, api.CodeInternal, "a fault in the agent; its log says more")
		}
	}()
	if e := s.rules.Load().guard.check(r.Request); e != nil {
		return "", e
	}
	at, params, err := s.tree.find(r.escaped)
	if err != nil {
		return "", err
	}
	if at == nil || len(at.routes) == 0 {
		if s.o.Page != nil && !isAPI(r.escaped) {
			s.o.Page.ServeHTTP(w, r.Request)
			return "page", nil
		}
		return "", failure(http.StatusNotFound, api.CodeUnknownPath, "no such endpoint; the API's paths start with /v1/ and have no slash at their end")
	}
	route, ok := at.pick(r.Method)
	if !ok {
		w.Header().Set("Allow", at.allow())
		return at.routes[0].pattern, failure(http.StatusMethodNotAllowed, api.CodeMethodNotAllowed,
			"%s is not a method of this endpoint; it has %s", r.Method, at.allow())
	}
	r.params = params
	if r.queryErr != nil {
		return route.pattern, badRequest("the query is malformed: %s", r.queryErr)
	}
	if err := r.understood(route.query); err != nil {
		return route.pattern, err
	}
	return route.pattern, route.handle(w, r)
}

func isAPI(path string) bool {
	return path == "/v1" || len(path) > 3 && path[:4] == "/v1/"
}

// statusWriter remembers the status, and whether an answer has begun.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) begun() bool { return w.status != 0 }

// WriteHeader notes the status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer, if nothing has.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// answer writes a value as JSON.
func (r *request) answer(w http.ResponseWriter, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	r.writeJSON(w, http.StatusOK, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return nil
}

// done answers a change that has nothing to tell.
func (r *request) done(w http.ResponseWriter) error {
	r.writeJSON(w, http.StatusOK, []byte("{}"))
	return nil
}

// list makes an empty list [] instead of null.
func list[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}
