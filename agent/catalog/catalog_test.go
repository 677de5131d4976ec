package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/catalog"
	"github.com/rondel-project/rondel/agent/load"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// wire brings the records of one member to a catalog, as gossip would.
type wire struct {
	t  *testing.T
	to *catalog.Catalog
	id member.ID

	mu      sync.Mutex
	records map[string][]byte
}

func newWire(t *testing.T, to *catalog.Catalog) *wire {
	return &wire{t: t, to: to, id: member.NewID(), records: map[string][]byte{}}
}

func (w *wire) SetLocal(key string, value []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records[key] = value
	if err := w.to.SetRecord(w.id, key, value); err != nil {
		w.t.Error(err)
	}
}

func (w *wire) DeleteLocal(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.records, key)
	if err := w.to.SetRecord(w.id, key, nil); err != nil {
		w.t.Error(err)
	}
}

func open(t *testing.T, o catalog.LocalOptions) *catalog.Local {
	t.Helper()
	l, err := catalog.OpenLocal(o)
	if err != nil {
		t.Fatal(err)
	}
	l.Start()
	return l
}

func shop(id string, port int) catalog.Registration {
	return catalog.Registration{ID: id, Name: "shop", Port: port}
}

func TestLocal_instanceReachesEveryReader(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	w := newWire(t, c)
	c.SetMember(w.id, "web1", "10.0.0.11", member.Alive)
	l := open(t, catalog.LocalOptions{Publisher: w})
	weight := 7
	r := catalog.Registration{ID: "s1", Name: "shop", Port: 8080, Weight: &weight, Backup: true, Tags: []string{"v2", "blue"},
		Protocol: catalog.HTTPS, SendProxy: "v2", MaxConnections: 40, SlowStart: catalog.Duration(30 * time.Second),
		Checks: []catalog.Check{{HTTP: "/health"}, {TTL: catalog.Duration(1e9)}}}
	if err := l.Register(r); err != nil {
		t.Fatal(err)
	}
	one := func() catalog.Instance {
		t.Helper()
		list := c.Snapshot().Instances("shop")
		if len(list) != 1 {
			t.Fatalf("%d instances", len(list))
		}
		return list[0]
	}
	got := one()
	if got.Addr() != "10.0.0.11:8080" || got.MemberName != "web1" || got.Weight != 7 || !got.Backup || !reflect.DeepEqual(got.Tags, r.Tags) ||
		got.Protocol != catalog.HTTPS || got.SendProxy != "v2" || got.MaxConnections != 40 || got.SlowStart != 30*time.Second {
		t.Errorf("%+v", got)
	}
	if got.Health != catalog.Critical || len(c.Snapshot().Passing("shop")) != 0 {
		t.Errorf("before its first check: %s", got.Health)
	}
	if l.SetCheck("s1", 0, catalog.Passing, "status 200") || !l.SetCheck("s1", 1, catalog.Warning, "slow") {
		t.Error("health changed at the wrong check")
	}
	if got := one(); got.Health != catalog.Warning || got.Reason != "slow" || len(c.Snapshot().Passing("shop")) != 1 {
		t.Errorf("%+v", got)
	}
	if err := l.SetLoad("s1", 0.5); err != nil || one().Load != 0.5 {
		t.Error(err, one().Load)
	}
	// Who fails and comes back, as when it was restarted, has said nothing yet;
	// what is said before the first good check stays.
	l.SetCheck("s1", 1, catalog.Critical, "refused")
	if one().Load != 0 {
		t.Errorf("load %v of one that is down", one().Load)
	}
	if err := l.SetLoad("s1", 0.25); err != nil {
		t.Error(err)
	}
	l.SetCheck("s1", 1, catalog.Critical, "timeout")
	if l.SetCheck("s1", 1, catalog.Warning, "slow"); one().Load != 0.25 {
		t.Errorf("load %v", one().Load)
	}
	if err := l.SetMaintenance("s1", true, "new disk"); err != nil || one().Health != catalog.Critical || one().Reason != "new disk" || !one().Maintenance {
		t.Errorf("%v %+v", err, one())
	}
	if err := l.SetMaintenance("s1", false, ""); err != nil || one().Health != catalog.Warning {
		t.Errorf("%v %+v", err, one())
	}
	if err := l.SetDrain("s1", &catalog.Drain{}); err != nil || !one().Draining {
		t.Errorf("%v %+v", err, one())
	}
	// Registering the same again keeps what checks and operators said.
	if err := l.Register(r); err != nil || one().Health != catalog.Warning || !one().Draining {
		t.Errorf("%v %+v", err, one())
	}
	c.SetMember(w.id, "web1", "10.0.0.11", member.Failed)
	if got := one(); got.Health != catalog.Critical || got.Reason != "its member web1 is failed" {
		t.Errorf("%+v", got)
	}
	c.SetMember(w.id, "web1", "10.0.0.11", member.Alive)
	if one().Health != catalog.Warning {
		t.Errorf("%+v", one())
	}
	if err := l.Deregister("s1"); err != nil || len(c.Snapshot().Services()) != 0 {
		t.Error(err, c.Snapshot().Services())
	}
	if err := l.Deregister("s1"); !errors.Is(err, catalog.ErrUnknownInstance) {
		t.Error(err)
	}
}

func TestLocal_survivesRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWire(t, catalog.New())
	l := open(t, catalog.LocalOptions{Dir: dir, Publisher: w})
	if err := l.SetConfigured([]catalog.Registration{shop("conf", 1)}); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		l.Register(shop("a", 2)), l.Register(shop("b", 3)), l.Deregister("b"),
		l.SetMaintenance("a", true, "why"), l.SetDrain("conf", &catalog.Drain{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	l = open(t, catalog.LocalOptions{Dir: dir, Publisher: newWire(t, catalog.New()), OnInstance: func(r catalog.Registration, gone bool) {
		told = append(told, fmt.Sprint(r.ID, gone))
	}})
	if list := l.Instances(); len(list) != 1 || list[0].ID != "a" || !list[0].Maintenance || list[0].Reason != "why" {
		t.Errorf("%+v", list)
	}
	if err := l.SetConfigured([]catalog.Registration{shop("conf", 1)}); err != nil {
		t.Fatal(err)
	}
	if list := l.Instances(); len(list) != 2 || !list[1].Draining {
		t.Errorf("%+v", list)
	}
	if got := strings.Join(told, " "); got != "afalse conffalse" {
		t.Errorf("told %s", got)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(left) != 0 {
		t.Error(left, err)
	}
}

func TestLocal_configuredOnes(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	l := open(t, catalog.LocalOptions{Publisher: newWire(t, c)})
	if err := l.SetConfigured([]catalog.Registration{shop("", 1), shop("shop2", 2)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Register(shop("shop2", 3)); !errors.Is(err, catalog.ErrConfigured) {
		t.Error(err)
	}
	if err := l.Deregister("shop2"); !errors.Is(err, catalog.ErrConfigured) {
		t.Error(err)
	}
	if err := l.Register(shop("api", 3)); err != nil {
		t.Fatal(err)
	}
	if err := l.SetConfigured([]catalog.Registration{shop("api", 4)}); !errors.Is(err, catalog.ErrInvalid) {
		t.Error(err)
	}
	if err := l.SetConfigured([]catalog.Registration{shop("x", 4), shop("x", 5)}); !errors.Is(err, catalog.ErrInvalid) || !strings.Contains(err.Error(), `ID "x" is used twice`) {
		t.Error(err)
	}
	if n := len(c.Snapshot().Instances("shop")); n != 3 {
		t.Errorf("a refused change left %d", n)
	}
	if err := l.SetConfigured([]catalog.Registration{shop("shop2", 2)}); err != nil || len(l.Instances()) != 2 {
		t.Error(err, l.Instances())
	}
}

func TestOpenLocal_brokenFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":     "",
		"cut off":   `{"Format":1,"Services":[{"ID":"a"`,
		"unknown":   `{"Format":1,"Services":[],"Extra":1}`,
		"newer":     `{"Format":2,"Services":[]}`,
		"two":       `{"Format":1,"Services":[]}{}`,
		"bad port":  `{"Format":1,"Services":[{"ID":"a","Name":"a","Port":0}]}`,
		"duplicate": `{"Format":1,"Services":[{"ID":"a","Name":"a","Port":1},{"ID":"a","Name":"b","Port":1}]}`,
		"binary":    "\x00\x01\x02",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "services.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := catalog.OpenLocal(catalog.LocalOptions{Dir: dir, Publisher: newWire(t, catalog.New())})
		if !errors.Is(err, catalog.ErrBrokenFile) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestLocal_nothingChangesWhereTheDiskFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	c := catalog.New()
	l := open(t, catalog.LocalOptions{Dir: dir, Publisher: newWire(t, c)})
	if err := l.Register(shop("a", 1)); err == nil {
		t.Fatal("registered without a disk")
	}
	if len(l.Instances()) != 0 || len(c.Snapshot().Services()) != 0 {
		t.Error("it is there all the same")
	}
}

func TestRegistration_faults(t *testing.T) {
	t.Parallel()
	minus := -1
	for name, tc := range map[string]struct {
		r    catalog.Registration
		want string
	}{
		"no name":  {catalog.Registration{Port: 1}, `Name ""`},
		"name":     {catalog.Registration{Name: "a b", Port: 1}, "only letters"},
		"port":     {catalog.Registration{Name: "a", Port: 70000}, "Port 70000: must be 1 to 65535"},
		"weight":   {catalog.Registration{Name: "a", Port: 1, Weight: &minus}, "Weight -1"},
		"protocol": {catalog.Registration{Name: "a", Port: 1, Protocol: "http"}, `Protocol "http": must be one of http1`},
		"PROXY":    {catalog.Registration{Name: "a", Port: 1, SendProxy: "v3"}, `SendProxy "v3"`},
		"limit":    {catalog.Registration{Name: "a", Port: 1, MaxConnections: -1}, "MaxConnections -1"},
		"slow":     {catalog.Registration{Name: "a", Port: 1, SlowStart: -1}, "SlowStart"},
		"address":  {catalog.Registration{Name: "a", Port: 1, Address: "10.0.0.1:80"}, "without a port"},
		"wildcard": {catalog.Registration{Name: "a", Port: 1, Address: "0.0.0.0"}, "Address"},
		"tag":      {catalog.Registration{Name: "a", Port: 1, Tags: []string{"\n"}}, "control characters"},
		"check":    {catalog.Registration{Name: "a", Port: 1, Checks: []catalog.Check{{}}}, "Check 1: set exactly one"},
		"timeout":  {catalog.Registration{Name: "a", Port: 1, Checks: []catalog.Check{{HTTP: "/", Interval: 1e9, Timeout: 1e9}}}, "must be below Interval"},
		"several":  {catalog.Registration{Name: "a b", Port: 0}, "Port 0"},
	} {
		if _, err := tc.r.Normalize(); !errors.Is(err, catalog.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := catalog.Registration{Name: "a", Port: 1, Address: "::1"}.Normalize()
	if err != nil || r.ID != "a" || *r.Weight != catalog.DefaultWeight {
		t.Errorf("%+v %v", r, err)
	}
}

func TestDuration_text(t *testing.T) {
	t.Parallel()
	var d catalog.Duration
	for text, ok := range map[string]bool{`"2s"`: true, `"1h30m"`: true, `""`: true, `2`: false, `"2"`: false, `null`: true, `"1d"`: false, `true`: false} {
		if err := json.Unmarshal([]byte(text), &d); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	if b, err := json.Marshal(catalog.Duration(90e9)); err != nil || string(b) != `"1m30s"` {
		t.Error(string(b), err)
	}
}

func TestCatalog_waits(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	w := newWire(t, c)
	c.SetMember(w.id, "web1", "10.0.0.11", member.Alive)
	index := c.Snapshot().Index
	got := make(chan *catalog.Snapshot)
	go func() { got <- c.Wait(t.Context(), index) }()
	w.SetLocal(catalog.MemberKey, catalog.MemberRecord{Load: load.Load{InFlight: 3}, Sessions: 9, Role: "voter", Leader: w.id, Term: 4}.Encode())
	s := <-got
	m, ok := s.Member(w.id)
	if !ok || s.Index <= index || m.Load.InFlight != 3 || m.Sessions != 9 || m.Role != "voter" || m.Leader != w.id || m.Term != 4 {
		t.Errorf("%+v", m)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s := c.Wait(ctx, 1<<60); s == nil {
		t.Error("no snapshot")
	}
}

func TestCatalog_manyInstances(t *testing.T) {
	t.Parallel()
	c := catalog.New()
	var ws []*wire
	for m := range 3 {
		w := newWire(t, c)
		ws = append(ws, w)
		c.SetMember(w.id, fmt.Sprintf("web%d", m), fmt.Sprintf("10.0.0.%d", m+1), member.Alive)
		l := open(t, catalog.LocalOptions{Publisher: w})
		for i := range 500 {
			if err := l.Register(catalog.Registration{ID: fmt.Sprintf("i%d", i), Name: fmt.Sprintf("svc%d", i%10), Port: 1 + i}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := c.Snapshot()
	if len(s.Services()) != 10 || len(s.Passing("svc3")) != 150 {
		t.Errorf("%d services, %d instances", len(s.Services()), len(s.Passing("svc3")))
	}
	c.SetMember(ws[0].id, "web0", "10.0.0.1", member.Left)
	if n := len(c.Snapshot().Passing("svc3")); n != 100 {
		t.Errorf("%d after one member left", n)
	}
	c.RemoveMember(ws[0].id)
	if n := len(c.Snapshot().Instances("svc3")); n != 100 {
		t.Errorf("%d after it was removed", n)
	}
	if n := len(s.Instances("svc3")); n != 150 {
		t.Errorf("an old snapshot changed: %d", n)
	}
}

func FuzzRecord(f *testing.F) {
	c := catalog.New()
	w := &wire{to: c, id: member.NewID(), records: map[string][]byte{}}
	l, err := catalog.OpenLocal(catalog.LocalOptions{Publisher: w})
	if err != nil {
		f.Fatal(err)
	}
	if err := l.Register(catalog.Registration{Name: "a", Port: 1, Tags: []string{"x"}, Checks: []catalog.Check{{TCP: ":1"}}}); err != nil {
		f.Fatal(err)
	}
	f.Add("i/a", w.records["i/a"])
	f.Add("m", catalog.MemberRecord{Role: "voter"}.Encode())
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		c := catalog.New()
		id := member.NewID()
		c.SetMember(id, "m", "10.0.0.1", member.Alive)
		if c.SetRecord(id, key, value) != nil {
			return
		}
		for _, s := range c.Snapshot().Services() {
			for _, i := range c.Snapshot().Instances(s.Name) {
				if i.Port < 1 || i.ID == "" || i.Address == "" {
					t.Fatalf("%+v", i)
				}
			}
		}
	})
}
