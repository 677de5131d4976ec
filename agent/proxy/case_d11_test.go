package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// spoken is an agent's log that tests read while it is written.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *spoken) says(words ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

// heads runs a proxy with small limits of heads, which have to come within a
// time, and what it logs. The instance answers /N with a head of N KiB.
func heads(t *testing.T, within time.Duration) (*rig, *spoken) {
	t.Helper()
	a := startApp(t, "a1", func(nc net.Conn) {
		echoWith(nc, func(q *http.Request) string {
			n := 0
			fmt.Sscanf(q.URL.Path, "/%d", &n)
			return "X: " + strings.Repeat("x", n<<10) + "\r\n"
		})
	})
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg.Limits.RequestHead, cfg.Limits.ResponseHead = 16<<10, 32<<10
	cfg.Timeouts.Header = within
	said := &spoken{}
	sess := newSessions()
	p, err := New(Options{
		Config: unhurried(cfg), Sessions: sess, TagKey: []byte("secret"),
		Log: hclog.New(&hclog.LoggerOptions{Output: said, Level: hclog.Debug}),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.SetInstances([]Instance{instanceOf(a, "m1")})
	return serveRig(t, p), said
}

// exchanged sends bytes and reads until the answer's end, whatever becomes of
// the sending.
func (r *rig) exchanged(t *testing.T, text string) (status int, closed bool) {
	t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.WriteString(nc, text) // the rest of what is refused may not be taken
	}()
	defer func() { nc.Close(); <-sent }()
	resp, err := http.ReadResponse(bufioOf(nc), nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Close
}

// D-11: what is too large is refused with the status that says which part it
// is, the connection ends, and the log tells size and limit.
func TestCase_D11_requestHeads(t *testing.T) {
	t.Parallel()
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"a cookie that fits":      {"GET /0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: a=" + x(15<<10) + "\r\n\r\n", 200},
		"a cookie":                {"GET /0 HTTP/1.1\r\nHost: x\r\nCookie: a=" + x(17<<10) + "\r\n\r\n", 431},
		"a huge cookie":           {"GET /0 HTTP/1.1\r\nHost: x\r\nCookie: a=" + x(1100<<10) + "\r\n\r\n", 431},
		"many fields":             {"GET /0 HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 3000) + "\r\n", 431},
		"many fields that fit":    {"GET /0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + strings.Repeat("A: b\r\n", 1000) + "\r\n", 200},
		"a target":                {"GET /" + x(17<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
		"a target without an end": {"GET /" + x(100<<10), 414},
		"a head without an end":   {"GET /0 HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 100000), 431},
		"a head that never ends":  {"GET /0 HTTP/1.1\r\nHost: x\r\nA: b", 408},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			within := time.Minute
			if c.status == 408 {
				within = 2 * time.Second // for its beginning, too
			}
			r, said := heads(t, within)
			status, closed := r.exchanged(t, c.text)
			if status != c.status || !closed {
				t.Errorf("status %d, want %d; close %v", status, c.status, closed)
			}
			if c.status == 414 || c.status == 431 {
				eventually(t, "the log to tell", func() bool {
					return said.says("[INFO]", "request refused", fmt.Sprintf("status=%d", c.status), "limit=16384", "received=")
				})
			}
			if n := r.Totals().Failures; n != 0 {
				t.Errorf("%d failures of the instance", n)
			}
		})
	}
}

// D-11, the other way: an answer's head that is too large is a 502, and the log
// says that it is this, and what the limit is. No other instance is asked.
func TestCase_D11_responseHeads(t *testing.T) {
	t.Parallel()
	r, said := heads(t, time.Minute)
	for kib, want := range map[int]int{4: 200, 16: 200, 31: 200, 33: 502, 1100: 502} {
		if status, _ := r.exchanged(t, fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", kib)); status != want {
			t.Errorf("%d KiB: status %d, want %d", kib, status, want)
		}
	}
	if !said.says("[WARN]", "response refused", "limit=32768", "instance=a1") {
		t.Error("the log does not tell of an answer's head that is too large")
	}
	if got := r.idle(t); got.Requests != 5 {
		t.Errorf("%+v", got)
	}
}

// D-11: one refused request costs the connections of others nothing.
func TestCase_D11_manyAtOnce(t *testing.T) {
	t.Parallel()
	r, _ := heads(t, time.Minute)
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			text, want := "GET /0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200
			if n%2 == 0 {
				text, want = "GET /0 HTTP/1.1\r\nHost: x\r\nCookie: a="+strings.Repeat("x", 200<<10)+"\r\n\r\n", 431
			}
			if status, _ := r.exchanged(t, text); status != want {
				t.Errorf("status %d, want %d", status, want)
			}
		})
	}
	wg.Wait()
}
