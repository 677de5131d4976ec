package telemetry

import (
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// figure returns the value of one series, or -1.
func figure(t *testing.T, m *Metrics, name string, labels ...string) float64 {
	t.Helper()
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.Metric {
			if values(s) == strings.Join(labels, ",") {
				return s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

func values(m *dto.Metric) string {
	var v []string
	for _, l := range m.Label {
		v = append(v, l.GetValue())
	}
	return strings.Join(v, ",")
}

func TestMetrics_count(t *testing.T) {
	t.Parallel()
	m, other := New(), New()
	m.Sessions.Wrote(OK, time.Millisecond)
	m.Sessions.Wrote(Outcome(200), time.Millisecond)
	m.Sessions.Read(NotFound, time.Millisecond)
	shop := m.Proxy.Route("shop")
	for _, status := range []int{200, 204, 503, 0, 999} {
		shop.Done(status, time.Second)
	}
	shop.Retried()
	shop.Passed(10, 200)
	shop.Passed(-1, 5)
	shop.Queued(time.Second)
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "rondel_session_writes_total", []string{"ok"}},
		{1, "rondel_session_writes_total", []string{"unknown"}},
		{2, "rondel_session_write_seconds", nil},
		{1, "rondel_session_reads_total", []string{"not_found"}},
		{2, "rondel_proxy_requests_total", []string{"2xx", "shop"}},
		{1, "rondel_proxy_requests_total", []string{"5xx", "shop"}},
		{2, "rondel_proxy_requests_total", []string{"none", "shop"}},
		{1, "rondel_proxy_retries_total", []string{"shop"}},
		{5, "rondel_proxy_request_seconds", []string{"shop"}},
		{10, "rondel_proxy_bytes_total", []string{"in", "shop"}},
		{205, "rondel_proxy_bytes_total", []string{"out", "shop"}},
		{1, "rondel_proxy_queue_seconds", []string{"shop"}},
	} {
		if got := figure(t, m, c.name, c.labels...); got != c.want {
			t.Errorf("%s%v is %v, not %v", c.name, c.labels, got, c.want)
		}
	}
	if got := figure(t, other, "rondel_session_writes_total", "ok"); got != 0 {
		t.Errorf("another agent counted %v", got)
	}
	m.Proxy.Forget("shop")
	if got := figure(t, m, "rondel_proxy_requests_total", "2xx", "shop"); got != -1 {
		t.Errorf("a forgotten route shows %v", got)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	m := New()
	err := m.Watch(Sources{
		SessionsOwned:    func() int { return 3 },
		RingEpoch:        func() uint64 { return 7 },
		Leader:           func() bool { return true },
		Members:          func() map[string]int { return map[string]int{"alive": 2, "failed": 1} },
		MessagesDropped:  func() uint64 { return 5 },
		ProxyConnections: func() Connections { return Connections{Open: 2, Accepted: 9, Refused: 1} },
		ProxyInstances: func() []Instance {
			return []Instance{{Service: "shop", ID: "shop-1", Member: "m1", InFlight: 4, Requests: 8, NewSessions: 3, Failures: 6, Queued: 5, Ejected: true}}
		},
		ProxyWaiting:     func() map[string]int { return map[string]int{"shop": 11} },
		AccessLogDropped: func() uint64 { return 12 },
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"rondel_sessions_owned": 3, "rondel_sessions_held": -1, "rondel_ring_epoch": 7,
		"rondel_leader": 1, "rondel_wire_dropped_total": 5,
	} {
		if got := figure(t, m, name); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	for name, want := range map[string]float64{"rondel_proxy_connections": 2, "rondel_proxy_connections_total": 9,
		"rondel_proxy_connections_refused_total": 1, "rondel_access_log_dropped_total": 12} {
		if got := figure(t, m, name); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	for name, want := range map[string]float64{"in_flight": 4, "requests_total": 8, "new_sessions_total": 3, "failures_total": 6, "queue": 5, "ejected": 1} {
		if got := figure(t, m, "rondel_proxy_instance_"+name, "shop-1", "m1", "shop"); got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	if got := figure(t, m, "rondel_proxy_queue", "shop"); got != 11 {
		t.Errorf("%v stand in line", got)
	}
	if got := figure(t, m, "rondel_gossip_members", "failed"); got != 1 {
		t.Errorf("failed members: %v", got)
	}
	if m.Watch(Sources{Leader: func() bool { return false }}) == nil {
		t.Error("the same figure was published twice")
	}
}

// Not parallel: allocations are counted for the whole process.
func TestMetrics_countingAllocatesNothing(t *testing.T) {
	m := New()
	shop := m.Proxy.Route("shop")
	if n := testing.AllocsPerRun(100, func() {
		shop.Done(200, time.Millisecond)
		m.Sessions.Wrote(OK, time.Millisecond)
		m.Sessions.Read(OK, time.Millisecond)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
