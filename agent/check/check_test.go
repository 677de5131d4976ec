package check_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/agent/check"
	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// told collects changes.
type told struct {
	mu  sync.Mutex
	all []check.State
}

func (t *told) add(s check.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, s)
}

func (t *told) list() []check.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]check.State(nil), t.all...)
}

func start(t *testing.T) (*check.Runner, *told) {
	t.Helper()
	got := &told{}
	r := check.NewRunner(got.add)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r, got
}

func normal(t *testing.T, s check.Spec, addr string) check.Spec {
	t.Helper()
	s, err := s.Normalize(addr)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("not in time: ", what)
		}
		<-tick.C
	}
}

func status(r *check.Runner, id string) check.Status {
	if s := r.States(id); len(s) > 0 {
		return s[0].Status
	}
	return ""
}

func TestRunner_httpStatuses(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/301":
			http.Redirect(w, r, "/500", http.StatusMovedPermanently)
		case "/401":
			w.WriteHeader(401)
		case "/host":
			if r.Host != "shop.example.com" {
				w.WriteHeader(400)
			}
		case "/hang":
			<-r.Context().Done()
		case "/body":
			io.WriteString(w, "all is well")
		case "/garbage":
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				io.WriteString(c, "HTTP/1.1 2")
				c.Close()
			}
		}
	}))
	app.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			conns.Add(-1)
		}
	}
	app.Start()
	t.Cleanup(app.Close)
	addr := app.Listener.Addr().String()
	for name, tc := range map[string]struct {
		spec   check.Spec
		want   check.Status
		reason string
	}{
		"204":         {check.Spec{HTTP: "/204"}, check.Passing, "status 204"},
		"301":         {check.Spec{HTTP: "/301"}, check.Passing, "status 301"},
		"401":         {check.Spec{HTTP: "/401"}, check.Critical, "status 401, want 200-399"},
		"401 allowed": {check.Spec{HTTP: "/401", Status: "200-299,401"}, check.Passing, "status 401"},
		"host":        {check.Spec{HTTP: "/host", Host: "shop.example.com"}, check.Passing, "status 200"},
		"wrong host":  {check.Spec{HTTP: "/host"}, check.Critical, "status 400, want 200-399"},
		"hang":        {check.Spec{HTTP: "/hang"}, check.Critical, "no answer within"},
		"body":        {check.Spec{HTTP: "/body", Contains: "well"}, check.Passing, "status 200"},
		"body limit":  {check.Spec{HTTP: "/body", Contains: "well", BodyLimit: 5}, check.Critical, "do not contain"},
		"half header": {check.Spec{HTTP: "/garbage"}, check.Critical, ""},
		"tcp":         {check.Spec{TCP: addr}, check.Passing, "connected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.spec
			s.Interval, s.Timeout = 40*time.Second, 30*time.Second
			if s.HTTP == "/hang" {
				s.Timeout = 80 * time.Millisecond
			}
			r, _ := start(t)
			r.Set("a", []check.Spec{normal(t, s, addr)})
			if got := status(r, "a"); got != check.Critical {
				t.Errorf("before the first probe: %s", got)
			}
			await(t, name, func() bool {
				s := r.States("a")[0]
				return s.Status == tc.want && strings.Contains(s.Reason, tc.reason) && s.Reason != "not checked yet"
			})
		})
	}
}

func TestRunner_leavesNoConnections(t *testing.T) {
	t.Parallel()
	var open, total atomic.Int32
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	app.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
			total.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	app.Start()
	t.Cleanup(app.Close)
	r, _ := start(t)
	r.Set("a", []check.Spec{normal(t, check.Spec{HTTP: "/", Interval: 10 * time.Millisecond, Timeout: 9 * time.Millisecond}, app.Listener.Addr().String())})
	await(t, "thirty probes", func() bool { return total.Load() >= 30 })
	r.Remove("a")
	await(t, "all closed", func() bool { return open.Load() == 0 })
}

func TestRunner_thresholdsAndOneNoticePerChange(t *testing.T) {
	t.Parallel()
	var healthy atomic.Bool
	var good, bad atomic.Int32
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if healthy.Load() {
			good.Add(1)
			return
		}
		bad.Add(1)
		w.WriteHeader(500)
	}))
	t.Cleanup(app.Close)
	healthy.Store(true)
	// Time stands still in here while a probe is under way, so none is late.
	synctest.Test(t, func(t *testing.T) {
		r, got := start(t)
		spec := normal(t, check.Spec{HTTP: "/", Interval: 10 * time.Second, Timeout: 9 * time.Second, Rise: 3, Fall: 3}, app.Listener.Addr().String())
		r.Set("a", []check.Spec{spec})
		await(t, "passing", func() bool { return status(r, "a") == check.Passing })
		if n := good.Load(); n != 3 {
			t.Errorf("passing after %d probes", n)
		}
		healthy.Store(false)
		await(t, "critical", func() bool { return status(r, "a") == check.Critical })
		if n := bad.Load(); n != 3 {
			t.Errorf("critical after %d probes", n)
		}
		await(t, "further failures", func() bool { return bad.Load() >= 6 })
		for range 100 {
			r.Set("a", []check.Spec{spec}) // as a reload does
		}
		if all := got.list(); len(all) != 2 || all[0].Status != check.Passing || all[1].Status != check.Critical || all[1].Reason != "status 500, want 200-399" {
			t.Errorf("told %+v", all)
		}
	})
}

// A verdict that changes and changes back before it is told is no news.
func TestRunner_changedBackBeforeItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var got []check.Status
		r := check.NewRunner(func(s check.State) {
			got = append(got, s.Status)
			<-hold
		})
		done := make(chan error)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { done <- r.Run(ctx) }()
		r.Set("a", []check.Spec{normal(t, check.Spec{TTL: time.Hour}, "127.0.0.1:1")})
		for _, s := range []check.Status{check.Passing, check.Critical, check.Passing} {
			if err := r.Beat("a", s, ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first is being told
		}
		close(hold)
		synctest.Wait()
		if len(got) != 1 || got[0] != check.Passing {
			t.Errorf("told %v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRunner_reloadKeepsUnchanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t)
		ten := normal(t, check.Spec{TTL: 10 * time.Second}, "127.0.0.1:1")
		twenty := normal(t, check.Spec{TTL: 20 * time.Second}, "127.0.0.1:1")
		r.Set("a", []check.Spec{ten, ten})
		if err := r.Beat("a", check.Passing, ""); err != nil {
			t.Fatal(err)
		}
		r.Set("a", []check.Spec{ten, twenty})
		s := r.States("a")
		if s[0].Status != check.Passing || s[1].Status != check.Critical {
			t.Errorf("%+v", s)
		}
		r.Set("a", nil)
		if s := r.States("a"); len(s) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRunner_heartBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, got := start(t)
		r.Set("a", []check.Spec{normal(t, check.Spec{TTL: 10 * time.Second}, "127.0.0.1:1")})
		if status(r, "a") != check.Critical {
			t.Error("passing before the first heart-beat")
		}
		if err := r.Beat("b", check.Passing, ""); !errors.Is(err, check.ErrUnknownCheck) {
			t.Error(err)
		}
		for range 5 {
			if err := r.Beat("a", check.Passing, "fine"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(9 * time.Second)
			if status(r, "a") != check.Passing {
				t.Error("not passing in time")
			}
		}
		if err := r.Beat("a", check.Warning, "queue is long"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		s := r.States("a")[0]
		if s.Status != check.Critical || s.Reason != "no heart-beat for 10s" {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		if err := r.Beat("a", check.Passing, ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var statuses []string
		for _, s := range got.list() {
			statuses = append(statuses, string(s.Status))
		}
		if want := "passing warning critical passing"; strings.Join(statuses, " ") != want {
			t.Errorf("told %v, want %s", statuses, want)
		}
	})
}

func TestSpec_faults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec check.Spec
		want string
	}{
		"none":            {check.Spec{}, "exactly one of HTTP, TCP and TTL"},
		"two":             {check.Spec{HTTP: "/", TCP: ":80"}, "exactly one of HTTP, TCP and TTL"},
		"timeout":         {check.Spec{HTTP: "/", Interval: time.Second, Timeout: time.Second}, "below Interval (1s)"},
		"negative":        {check.Spec{HTTP: "/", Interval: -time.Second}, "Interval -1s"},
		"relative":        {check.Spec{HTTP: "health"}, "must be a path that starts with /"},
		"scheme":          {check.Spec{HTTP: "ftp://x/"}, "http or https URL"},
		"port":            {check.Spec{TCP: ":99999"}, "1 to 65535"},
		"no port":         {check.Spec{TCP: "host"}, "host:port"},
		"status":          {check.Spec{HTTP: "/", Status: "500-200"}, "range of them within"},
		"threshold":       {check.Spec{HTTP: "/", Rise: -1}, "Rise and Fall"},
		"ttl":             {check.Spec{TTL: time.Nanosecond}, "TTL 1ns"},
		"warning":         {check.Spec{HTTP: "/", Warning: "42"}, "Warning \"42\""},
		"https":           {check.Spec{HTTP: "/", Scheme: "ftp"}, "must be http or https"},
		"method":          {check.Spec{HTTP: "/", Method: "G ET"}, "not a method"},
		"host with space": {check.Spec{HTTP: "/", Host: "a b"}, "not a host name"},
	} {
		if _, err := tc.spec.Normalize("127.0.0.1:80"); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for in, want := range map[string]string{"8080": "10.0.0.1:8080", ":8080": "10.0.0.1:8080", "[::1]:80": "[::1]:80"} {
		if s, err := (check.Spec{TCP: in}).Normalize("10.0.0.1:80"); err != nil || s.TCP != want {
			t.Errorf("%s: %s, %v", in, s.TCP, err)
		}
	}
	if s, err := (check.Spec{HTTP: "/h", Interval: time.Second}).Normalize("[::1]:80"); err != nil || s.HTTP != "http://[::1]:80/h" || s.Timeout != 500*time.Millisecond {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzSpec(f *testing.F) {
	f.Add("/health", "", "127.0.0.1:80")
	f.Add("http://[::1]:1/x", "", "")
	f.Add("", ":80", "[::1]:2")
	f.Fuzz(func(t *testing.T, httpText, tcp, instance string) {
		s, err := check.Spec{HTTP: httpText, TCP: tcp}.Normalize(instance)
		if err != nil {
			return
		}
		again, err := s.Normalize(instance)
		if err != nil || again != s {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}

func FuzzStatuses(f *testing.F) {
	for _, s := range []string{"", "200", "200-299,304", "99", "200-", "-", "200-199", "100-599, 429"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := check.Spec{HTTP: "/", Status: check.Statuses(text)}.Normalize("127.0.0.1:80")
		if (err == nil) != (check.Statuses(text).Check() == nil) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
