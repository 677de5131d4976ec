package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondel-project/rondel/api"
)

func TestCluster_reads(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, c := range []struct{ target, want string }{
		{"/v1/ring", `{"Epoch":42,"Leader":"m1","Moving":0,"Short":0,"Members":[{"Name":"m2","Position":0,"State":"up","Draining":false,"Slots":512,"Owned":512,"Copies":512,"Sessions":4},{"Name":"m1","Position":1,"State":"up","Draining":false,"Slots":512,"Owned":512,"Copies":512,"Sessions":3}]}`},
		{"/v1/ring/locate/a%2Fb", `{"Slot":3,"Home":"m2","Owner":"m2","Successors":["m1"]}`},
		{"/v1/status/leader", `"10.0.0.1:8702"`},
		{"/v1/status/peers", `["10.0.0.1:8702","10.0.0.2:8702"]`},
		{"/v1/operator/raft/configuration", `{"Servers":[{"ID":"1","Node":"m1","Address":"10.0.0.1:8702","Leader":true,"Voter":true},{"ID":"2","Node":"m2","Address":"10.0.0.2:8702","Leader":false,"Voter":true}],"Index":3,"Leader":"m1"}`},
		{"/v1/catalog/service/none", `[]`},
		{"/v1/catalog/service/blog?passing", `[]`},
		{"/v1/agent/services", `[]`},
		{"/v1/health/agent", `{"Healthy":true,"Reasons":[]}`},
		{"/v1/health/agent?serving", `{"Healthy":true,"Reasons":[]}`},
	} {
		h.want(h.do("GET", c.target, ""), 200, c.want)
	}
	h.want(h.do("GET", "/v1/ring/locate/", ""), 400)

	var members []api.Member
	if err := json.Unmarshal(h.do("GET", "/v1/agent/members", "").Body.Bytes(), &members); err != nil || len(members) != 2 || members[0].Name != "m1" {
		t.Errorf("members %+v, %v", members, err)
	}
	var services []api.CatalogService
	if err := json.Unmarshal(h.do("GET", "/v1/catalog/services", "").Body.Bytes(), &services); err != nil {
		t.Fatal(err)
	}
	if len(services) != 2 || services[0].Name != "blog" || services[0].Passing != 0 ||
		services[1].Passing != 1 || len(services[1].Instances) != 2 || fmt.Sprint(services[1].Tags) != "[a b]" {
		t.Errorf("services %+v", services)
	}
}

func TestCluster_changesReachTheirPart(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, c := range []struct{ target, body, call string }{
		{"/v1/agent/join/10.0.0.9:8701", "", "join 10.0.0.9:8701"},
		{"/v1/agent/join/%5B::1%5D:8701", "", "join [::1]:8701"},
		{"/v1/agent/leave", "", "leave false"},
		{"/v1/agent/leave?force", "", "leave true"},
		{"/v1/agent/force-leave/m2", "", "force-leave m2 false"},
		{"/v1/agent/force-leave/m2?prune=1", "", "force-leave m2 true"},
		{"/v1/agent/reload", "", "reload"},
		{"/v1/agent/drain?enable=true", "", `drain "" true`},
		{"/v1/agent/drain?enable=false&node=m2", "", `drain "m2" false`},
		{"/v1/ring/rebalance", "", "rebalance"},
		{"/v1/ring/move?slots=10&from=m1&to=m2", "", "move 10 m1 m2"},
		{"/v1/agent/service/deregister/a%2Fb", "", "deregister a/b"},
		{"/v1/agent/service/maintenance/a?enable=true&reason=new+disk", "", "maintenance a {Enable:true Drain:false Reason:new disk Deadline:0s}"},
		{"/v1/agent/service/maintenance/a?enable=false&drain", "", "maintenance a {Enable:false Drain:true Reason: Deadline:0s}"},
		{"/v1/agent/service/maintenance/a?enable=true&drain=true&deadline=90s", "", "maintenance a {Enable:true Drain:true Reason: Deadline:1m30s}"},
		{"/v1/agent/service/weight/a", `{"Weight":0}`, "weight a 0"},
		{"/v1/agent/service/load/a", `{"Load":0.5}`, "load a 0.5"},
		{"/v1/agent/check/pass/service:a", "", "check service:a passing "},
		{"/v1/agent/check/warn/service:a?note=slow", "", "check service:a warning slow"},
		{"/v1/agent/check/fail/service:a", "", "check service:a critical "},
		{
			"/v1/agent/service/register", `{"ID":"s1","Name":"shop","Address":"10.0.0.1","Port":80,"Weight":5,"Backup":true,"Protocol":"h2","SendProxy":"v1","MaxConnections":9,"SlowStart":"10s","Tags":["a"],"Checks":[{"HTTP":"/h","Interval":"2s","Timeout":"1s","Method":"HEAD","Host":"h.example","Scheme":"https","Healthy":"200","Warning":"503","Contains":"ok","BodyLimit":9,"Rise":2,"Fall":3},{"TTL":"10s"}]}`,
			"register {ID:s1 Name:shop Address:10.0.0.1 Port:80 Weight:<nil> Backup:true Protocol:h2 SendProxy:v1 MaxConnections:9 SlowStart:10s Tags:[a] Checks:[{ID: HTTP:/h TCP: TTL:0s Interval:2s Timeout:1s Method:HEAD Host:h.example Scheme:https Healthy:200 Warning:503 Contains:ok BodyLimit:9 Rise:2 Fall:3} {ID: HTTP: TCP: TTL:10s Interval:0s Timeout:0s Method: Host: Scheme: Healthy: Warning: Contains: BodyLimit:0 Rise:0 Fall:0}]} weight 5",
		},
	} {
		h.want(h.do("PUT", c.target, c.body), 200)
		if got := h.cluster.lastCall(); got != c.call {
			t.Errorf("%s: called %q, want %q", c.target, got, c.call)
		}
	}
}

func TestCluster_badChangesReachNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, c := range [][2]string{
		{"/v1/agent/service/register", ``},
		{"/v1/agent/service/register", `[]`},
		{"/v1/agent/service/register", `{"Name":"","Port":80}`},
		{"/v1/agent/service/register", `{"Name":"a","Port":70000}`},
		{"/v1/agent/service/register", `{"Name":"a","Port":80,"Weight":-1}`},
		{"/v1/agent/service/register", `{"Name":"a","Port":80,"port":80}`},
		{"/v1/agent/service/register", `{"Name":"a","Port":80,"Checks":[{}]}`},
		{"/v1/agent/service/register", `{"Name":"a","Port":80,"Checks":[{"HTTP":"/","TCP":":80"}]}`},
		{"/v1/agent/service/register", `{"Name":"a","Port":80,"Checks":[{"TTL":"10s","Interval":"1s"}]}`},
		{"/v1/agent/service/register", `{"Name":"a","Port":80,"Checks":[{"HTTP":"/","Interval":"2"}]}`},
		{"/v1/agent/service/register", `{"Name":"a","Port":80,"Checks":{}}`},
		{"/v1/agent/service/register", `{"Name":"a","Port":80,"Tags":[1]}`},
		{"/v1/agent/service/maintenance/a", ``},
		{"/v1/agent/service/maintenance/a?enable=maybe", ``},
		{"/v1/agent/service/maintenance/a?enable=true&drain=true&deadline=10", ``},
		{"/v1/agent/service/maintenance/a?enable=true&drain=true&deadline=-1s", ``},
		{"/v1/agent/service/maintenance/a?enable=false&drain=true&deadline=1s", ``},
		{"/v1/agent/service/maintenance/a?enable=true&deadline=1s", ``},
		{"/v1/agent/service/weight/a", ``},
		{"/v1/agent/service/weight/a", `{}`},
		{"/v1/agent/service/weight/a", `{"Weight":-1}`},
		{"/v1/agent/service/weight/a", `{"Weight":70000}`},
		{"/v1/agent/service/weight/a", `{"Weight":"5"}`},
		{"/v1/agent/service/weight/a", `{"Weight":1.5}`},
		{"/v1/agent/service/load/a", ``},
		{"/v1/agent/service/load/a", `{"Load":-1}`},
		{"/v1/agent/service/load/a", `{"Load":"1"}`},
		{"/v1/agent/leave?force=perhaps", ``},
		{"/v1/agent/drain", ``},
		{"/v1/agent/drain?enable=perhaps", ``},
		{"/v1/agent/drain?enable=true&node=", ``},
		{"/v1/ring/move", ``},
		{"/v1/ring/move?slots=0&from=m1&to=m2", ``},
		{"/v1/ring/move?slots=1025&from=m1&to=m2", ``},
		{"/v1/ring/move?slots=x&from=m1&to=m2", ``},
		{"/v1/ring/move?slots=1&from=m1", ``},
		{"/v1/ring/move?slots=1&from=m1&to=m1", ``},
	} {
		h.want(h.do("PUT", c[0], c[1]), 400)
	}
	h.want(h.do("PUT", "/v1/agent/service/register", `{"Name":"a","Port":80,"Tags":["`+strings.Repeat("x", smallBody)+`"]}`), 413)
	if got := h.cluster.lastCall(); got != "" {
		t.Errorf("called %q", got)
	}
}

func TestCluster_errorsOfTheParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want int
	}{
		{fmt.Errorf("a: %w", ErrInvalid), 400},
		{fmt.Errorf("a: %w", ErrNotFound), 404},
		{fmt.Errorf("a: %w", ErrConflict), 409},
		{fmt.Errorf("a: %w", ErrUnavailable), 503},
		{&api.Error{StatusCode: 409, Code: api.CodeQuorum, Message: "two voters are left"}, 409},
		{errors.New("broken"), 500},
	} {
		h := newHarness(t)
		h.cluster.fail = c.err
		h.want(h.do("PUT", "/v1/agent/leave", ""), c.want)
	}
}

func TestCluster_unhealthySaysWhy(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.cluster.unready = []string{"no leader", "slot 7 has one copy of 3"}
	w := h.want(h.do("GET", "/v1/health/agent", ""), 503, `{"Error":"no leader; slot 7 has one copy of 3","Code":"unhealthy"}`)
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	h.want(h.do("GET", "/v1/health/agent?serving", ""), 200)
}

func TestCluster_noTableYet(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.cluster.table.Epoch = 0
	h.want(h.do("GET", "/v1/ring/locate/x", ""), 503)
}

func TestWait_answersOnChange(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	if got := h.do("GET", "/v1/ring", "").Header().Get("X-Rondel-Index"); got != "42" {
		t.Errorf("index %q", got)
	}
	// Another index than the present one answers at once.
	for _, index := range []string{"0", "41", "43"} {
		h.want(h.do("GET", "/v1/ring?index="+index, ""), 200)
	}
	if got := h.do("GET", "/v1/ring?index=42&wait=1ms", "").Header().Get("X-Rondel-Index"); got != "42" {
		t.Errorf("index %q after the wait", got)
	}
	got := make(chan string, 1)
	go func() { got <- h.do("GET", "/v1/ring?index=42&wait=1m", "").Header().Get("X-Rondel-Index") }()
	select {
	case <-got:
		t.Error("answered before the change")
	case <-time.After(20 * time.Millisecond):
	}
	h.cluster.ringIndex.push()
	select {
	case index := <-got:
		if index != "43" {
			t.Errorf("index %q after the change", index)
		}
	case <-time.After(time.Minute):
		t.Error("no answer on the change")
	}
}

func TestMetrics_bothForms(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rondel_members", Help: "x"}, []string{"status"})
	g.WithLabelValues("alive").Set(3)
	hist := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rondel_seconds", Help: "x", Buckets: []float64{1}})
	hist.Observe(0.5)
	h.metrics.MustRegister(g, hist)
	var m map[string]json.RawMessage
	if err := json.Unmarshal(h.want(h.do("GET", "/v1/agent/metrics", ""), 200).Body.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if got := string(m["Gauges"]); got != `[{"Name":"rondel_members","Labels":{"status":"alive"},"Value":3}]` {
		t.Errorf("gauges %s", got)
	}
	if got := string(m["Histograms"]); got != `[{"Name":"rondel_seconds","Labels":{},"Count":1,"Sum":0.5,"Buckets":[{"Bound":1,"Count":1}]}]` {
		t.Errorf("histograms %s", got)
	}
	text := h.want(h.do("GET", "/v1/agent/metrics?format=prometheus", ""), 200).Body.String()
	if !strings.Contains(text, `rondel_members{status="alive"} 3`) {
		t.Errorf("text form:\n%s", text)
	}
	h.want(h.do("GET", "/v1/agent/metrics?format=xml", ""), 400)
}

func TestCluster_changesTakeNoBody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, target := range []string{"/v1/agent/join/10.0.0.9", "/v1/agent/leave", "/v1/agent/force-leave/m2", "/v1/agent/reload", "/v1/agent/drain?enable=true", "/v1/ring/rebalance", "/v1/ring/move?slots=1&from=m1&to=m2"} {
		if w := h.do("PUT", target, `{"x":1}`); w.Code != 400 {
			t.Errorf("%s with a body: %d %s", target, w.Code, w.Body)
		}
	}
}
