package proxy

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Two instances that take one request each have one each, and neither wants to
// answer its own: both clients get what there is, at once.
func TestCase_D06_unwantedAnswersWaitForNoRoom(t *testing.T) {
	t.Parallel()
	var list []Instance
	both := make(chan struct{})
	came := make(chan struct{}, 2)
	for _, id := range []string{"a0", "a1"} {
		in := instanceOf(startApp(t, id, func(nc net.Conn) {
			nc.Read(make([]byte, 4096))
			came <- struct{}{}
			<-both
			io.WriteString(nc, refusal)
		}), "m1")
		in.MaxConnections = 1
		list = append(list, in)
	}
	r := startRig(t, setup{apps: list, cfg: routed(func(rt *Route) {
		rt.Retry.Statuses = []int{503}
		rt.Queue = Queue{Length: 10, Timeout: time.Hour}
	})})
	_, first := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_, second := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-came
	<-came
	close(both)
	resp, body := read(t, first, "GET")
	if resp.StatusCode != 503 || body != "full\n" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	// The other one may find the place free that the first has left.
	if resp, body := read(t, second, "GET"); resp.StatusCode != 503 || !strings.HasSuffix(body, "full\n") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	r.idle(t)
}
