package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/session"
	"github.com/rondel-project/rondel/api"
)

// engine is a session engine for one member: the real rules of package
// session over a map.
type engine struct {
	mu      sync.Mutex // guards all below
	keys    *session.Keyring
	recs    map[session.ID]*session.Record
	calls   int
	last    *session.Request
	answer  *session.Response // instead of doing anything
	mintErr error
	maxSize int
	now     int64
}

func newEngine() *engine {
	return &engine{
		keys:    session.NewKeyring([]ring.Key{{ID: 1, Secret: [32]byte{1}}}),
		recs:    make(map[session.ID]*session.Record),
		maxSize: DefaultMaxSession,
	}
}

func (e *engine) Do(_ context.Context, req *session.Request) *session.Response {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls++
	e.last = req
	e.now++
	if e.answer != nil {
		return e.answer
	}
	if _, err := e.keys.Parse(string(req.ID)); err != nil {
		return session.Fail(session.NotFound, "unknown_session", "no such session")
	}
	rec := e.recs[req.ID]
	if !req.Kind.Mutates() {
		return e.read(rec, req)
	}
	change, resp := session.Apply(rec, req, session.Env{
		Gen:     session.Gen{Re: 7},
		Now:     e.now,
		Wall:    1_700_000_000_000,
		MaxSize: e.maxSize,
		TTL:     30 * time.Minute,
		MaxAge:  24 * time.Hour,
	})
	if change != nil {
		e.recs[req.ID] = change.Next
		if change.Twin != nil {
			e.recs[change.Twin.ID] = change.Twin
		}
		resp.Record = change.Next
	}
	resp.OwnerName, resp.ReplicaNames, resp.Left = "m1", []string{"m2", "m3"}, 30*time.Minute
	return resp
}

func (e *engine) Start(req *session.Request, w Waiter) { w.Answered(e.Do(context.Background(), req)) }

func (e *engine) Flush() {}

func (e *engine) read(rec *session.Record, req *session.Request) *session.Response {
	if rec == nil || rec.Dead {
		return session.Fail(session.NotFound, "unknown_session", "no such session")
	}
	resp := &session.Response{
		Status: session.OK, ID: rec.ID, Version: rec.Version(), Stale: req.Stale,
		OwnerName: "m1", ReplicaNames: []string{"m2", "m3"}, Left: 30 * time.Minute,
	}
	switch req.Kind {
	case session.GetAttr:
		if resp.Attr = rec.Attr(req.Name); resp.Attr == nil {
			return session.Fail(session.NoAttr, "unknown_attribute", "the session has no such attribute")
		}
	default:
		resp.Record = rec
	}
	return resp
}

func (e *engine) Mint() (session.ID, error) {
	if e.mintErr != nil {
		return "", e.mintErr
	}
	return e.keys.Mint(3, time.Now()), nil
}

func (e *engine) MintBeside(id session.ID) (session.ID, error) {
	p, err := e.keys.Parse(string(id))
	if err != nil {
		return "", err
	}
	return e.keys.Mint(p.Slot, time.Now()), nil
}

func (e *engine) List(_ context.Context, o ListOptions) ([]ListEntry, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []ListEntry
	for id, rec := range e.recs {
		if !rec.Dead && string(id) > o.After && strings.HasPrefix(string(id), o.Prefix) &&
			(o.Group == "" || o.Group == rec.Group) && (o.Principal == "" || o.Principal == rec.Principal) {
			out = append(out, ListEntry{id, rec.Size(), rec.Ver, rec.Group, rec.Principal})
		}
	}
	slices.SortFunc(out, func(a, b ListEntry) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out[:min(len(out), o.Limit)], nil
}

func (e *engine) lastRequest() *session.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

func (e *engine) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls
}

// watched is an index that tests push forward.
type watched struct {
	mu      sync.Mutex // guards all below
	index   uint64
	changed chan struct{}
}

func newWatched(index uint64) *watched { return &watched{index: index, changed: make(chan struct{})} }

func (w *watched) Watch() (uint64, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.index, w.changed
}

func (w *watched) push() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index++
	close(w.changed)
	w.changed = make(chan struct{})
}

// cluster fakes everything but the session engine.
type cluster struct {
	memberIndex, ringIndex, catalogIndex *watched

	mu        sync.Mutex // guards all below
	members   []api.Member
	table     *ring.Table
	leader    string
	services  []api.Service
	instances []api.CatalogInstance
	calls     []string
	fail      error
	unready   []string
}

func newCluster() *cluster {
	t := &ring.Table{Epoch: 42, Order: []member.Number{2, 1}}
	for i, name := range []string{"m1", "m2"} {
		t.Members = append(t.Members, ring.Member{Num: member.Number(i + 1), Name: name, State: ring.Up})
	}
	for h := range t.Slots {
		n := member.Number(1 + h%2)
		t.Slots[h] = ring.SlotState{Home: n, Owner: n, InSync: []ring.Holder{{Num: 1}, {Num: 2}}}
	}
	return &cluster{
		memberIndex: newWatched(5), ringIndex: newWatched(42), catalogIndex: newWatched(9),
		members: []api.Member{
			{Name: "m2", Addr: "10.0.0.2", Port: 8701, Status: "alive", Role: "voter", Sessions: 4},
			{Name: "m1", Addr: "10.0.0.1", Port: 8701, Status: "alive", Role: "leader", Sessions: 3},
		},
		table:  t,
		leader: "m1",
		instances: []api.CatalogInstance{
			{ID: "shop:2", Name: "shop", Member: "m2", Health: "critical"},
			{ID: "shop:1", Name: "shop", Member: "m1", Health: "passing", Tags: []string{"b", "a"}},
			{ID: "blog", Name: "blog", Member: "m1", Health: "passing", Maintenance: true},
		},
	}
}

func (c *cluster) called(format string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, fmt.Sprintf(format, args...))
	return c.fail
}

func (c *cluster) lastCall() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		return ""
	}
	return c.calls[len(c.calls)-1]
}

type fakeMembers struct{ *cluster }

func (f fakeMembers) Watch() (uint64, <-chan struct{}) { return f.memberIndex.Watch() }
func (f fakeMembers) Members() []api.Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.members)
}
func (f fakeMembers) Join(_ context.Context, addr string) error { return f.called("join %s", addr) }
func (f fakeMembers) ForceLeave(_ context.Context, name string, prune bool) error {
	return f.called("force-leave %s %v", name, prune)
}

type fakeRing struct{ *cluster }

func (f fakeRing) Watch() (uint64, <-chan struct{}) { return f.ringIndex.Watch() }
func (f fakeRing) Table() *ring.Table               { return f.table }
func (f fakeRing) Leader() string                   { return f.leader }
func (f fakeRing) Locate(key string) (ring.Slot, error) {
	return ring.Slot(len(key)), f.called("locate %s", key)
}

func (f fakeRing) Drain(_ context.Context, node string, on bool) (api.DrainResult, error) {
	return api.DrainResult{Node: "m1", Draining: on, Epoch: 43}, f.called("drain %q %v", node, on)
}

func (f fakeRing) Rebalance(context.Context) (api.MoveResult, error) {
	return api.MoveResult{Moved: 7, Epoch: 43}, f.called("rebalance")
}

func (f fakeRing) Move(_ context.Context, slots int, from, to string) (api.MoveResult, error) {
	return api.MoveResult{Moved: slots, Epoch: 43}, f.called("move %d %s %s", slots, from, to)
}

type fakeServices struct{ *cluster }

func (f fakeServices) Services() []api.Service { return f.services }
func (f fakeServices) Register(r api.ServiceRegistration) error {
	weight := -1 // not given
	if r.Weight != nil {
		weight = *r.Weight
	}
	r.Weight = nil
	return f.called("register %+v weight %d", r, weight)
}
func (f fakeServices) Deregister(id string) error { return f.called("deregister %s", id) }
func (f fakeServices) SetMaintenance(id string, m Maintenance) error {
	return f.called("maintenance %s %+v", id, m)
}
func (f fakeServices) ReportLoad(id string, load float64) error {
	return f.called("load %s %v", id, load)
}
func (f fakeServices) SetWeight(id string, weight int) error {
	return f.called("weight %s %d", id, weight)
}
func (f fakeServices) Report(id, status, note string) error {
	return f.called("check %s %s %s", id, status, note)
}

type fakeCatalog struct{ *cluster }

func (f fakeCatalog) Watch() (uint64, <-chan struct{}) { return f.catalogIndex.Watch() }
func (f fakeCatalog) Instances() []api.CatalogInstance { return f.instances }

type fakeProcess struct{ *cluster }

func (f fakeProcess) Self() api.Self { return api.Self{Member: f.members[1]} }
func (f fakeProcess) Unready() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unready
}
func (f fakeProcess) Unserving() []string                   { return nil }
func (f fakeProcess) Leave(_ context.Context, b bool) error { return f.called("leave %v", b) }
func (f fakeProcess) Reload(context.Context) (api.ReloadResult, error) {
	return api.ReloadResult{}, f.called("reload")
}
func (f fakeProcess) Configuration(context.Context) (api.RaftConfiguration, error) {
	return api.RaftConfiguration{Leader: "m1", Index: 3, Servers: []api.RaftServer{
		{ID: "2", Node: "m2", Address: "10.0.0.2:8702", Voter: true},
		{ID: "1", Node: "m1", Address: "10.0.0.1:8702", Voter: true, Leader: true},
	}}, f.fail
}

// harness is a server over fakes, driven by raw requests.
type harness struct {
	t       testing.TB
	engine  *engine
	cluster *cluster
	log     hclog.InterceptLogger
	logText *syncBuffer
	metrics *prometheus.Registry
	server  *Server
	once    sync.Once
	door    *door
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	h := &harness{t: t, engine: newEngine(), cluster: newCluster(), logText: &syncBuffer{}, metrics: prometheus.NewRegistry()}
	h.log = hclog.NewInterceptLogger(&hclog.LoggerOptions{Name: "rondel", Level: hclog.Trace, Output: h.logText})
	h.server = New(Options{
		Logger:   h.log,
		Process:  fakeProcess{h.cluster},
		Members:  fakeMembers{h.cluster},
		Ring:     fakeRing{h.cluster},
		Moves:    fakeRing{h.cluster},
		Sessions: h.engine,
		Services: fakeServices{h.cluster},
		Checks:   fakeServices{h.cluster},
		Catalog:  fakeCatalog{h.cluster},
		Raft:     fakeProcess{h.cluster},
		Logs:     h.log,
		Metrics:  h.metrics,
		Node:     "web1",
		Hosts:    []string{"agent.example.com"},
	})
	return h
}

// do sends a request whose target is used as it is, through a door of the
// server's, and so on the path that a client's would take.
func (h *harness) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	text := method + " " + target + " HTTP/1.1\r\n"
	host := "127.0.0.1:8700"
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			host = headers[i+1]
			continue
		}
		text += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	text += "Host: " + host + "\r\n"
	if body != "" {
		text += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	client, server := net.Pipe()
	defer client.Close()
	h.begin(server)
	go io.WriteString(client, text+"\r\n"+body) // ends with the connection
	resp, err := http.ReadResponse(bufio.NewReader(client), &http.Request{Method: method})
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, target, err)
	}
	w := httptest.NewRecorder()
	w.Code = resp.StatusCode
	if _, err := w.Body.ReadFrom(resp.Body); err != nil {
		h.t.Fatalf("%s %s: %v", method, target, err)
	}
	resp.Header.Del("Date")
	resp.Header.Del("Connection")
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	return w
}

// begin opens the harness's door for a connection.
func (h *harness) begin(c net.Conn) {
	h.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		d := newDoor(ctx, h.log, h.server, h.server.maxBody)
		ended := make(chan error, 1)
		go func() { ended <- d.serveRest() }()
		h.door = d
		h.t.Cleanup(func() {
			bounded, done := context.WithTimeout(context.Background(), 0)
			defer done()
			d.stop(bounded, nil, cancel)
			<-ended
		})
	})
	h.door.begin(c)
}

// want fails the test unless the answer has that status and, if given, body.
func (h *harness) want(w *httptest.ResponseRecorder, status int, body ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	if w.Code != status {
		h.t.Fatalf("status %d, want %d; body %.300s", w.Code, status, w.Body)
	}
	if len(body) > 0 && w.Body.String() != body[0] {
		h.t.Fatalf("body\n%.600s\nwant\n%.600s", w.Body, body[0])
	}
	return w
}

// newSession returns the path of a new session.
func (h *harness) newSession(body string) string {
	h.t.Helper()
	return h.want(h.do("POST", "/v1/sessions", body), http.StatusCreated).Header().Get("Location")
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// serve runs the server on a socket until the test ends.
func (h *harness) serve() (base string) {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.server.Run(ctx, l) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("Run: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

// raw sends bytes on a connection of its own and returns the answer to its
// end.
func raw(t testing.TB, base, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
