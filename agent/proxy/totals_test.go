package proxy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// retire does what the sweep will do after that time, and returns how many
// instances that are gone are still counted by themselves.
func (r *rig) retire(after time.Duration) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retireLocked(time.Now().Add(after))
	return len(r.retiring)
}

// A tunnel goes on when its instance is deregistered, and is load as before.
func TestTotals_tunnelOfAnInstanceThatIsGone(t *testing.T) {
	t.Parallel()
	r, _ := one(t, switching)
	nc, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
		t.Fatal(err)
	}
	want := Totals{InFlight: 1, Requests: 1, NewSessions: 1}
	for _, after := range []time.Duration{0, time.Hour, 2 * time.Hour} { // registered, then not
		if n := r.retire(after); r.Totals() != want || n != min(int(after), 1) {
			t.Errorf("%+v, want %+v; %d are gone", r.Totals(), want, n)
		}
		r.SetInstances(nil)
	}
	nc.Close()
	want.InFlight = 0
	if got := r.idle(t); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := r.retire(0); n != 1 {
		t.Error("a late request would not be counted")
	}
	if n := r.retire(2*time.Hour + 2*lateFor); n != 0 || r.Totals() != want {
		t.Errorf("%+v, want %+v; %d are kept", r.Totals(), want, n)
	}
}

// What is counted for an instance after it was deregistered is not lost.
func TestTotals_failureOfAnInstanceThatIsGone(t *testing.T) {
	t.Parallel()
	began, breakOff := make(chan struct{}), make(chan struct{})
	r, _ := one(t, func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			began <- struct{}{}
			<-breakOff
		}
	})
	_, br := r.send(t, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
	<-began
	r.SetInstances(nil)
	if got, want := r.Totals(), (Totals{InFlight: 1, Requests: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	close(breakOff)
	if resp, _ := read(t, br, "POST"); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d", resp.StatusCode)
	}
	want := Totals{Requests: 1, Failures: 1}
	eventually(t, "all is counted", func() bool { return r.Totals() == want })
	r.retire(0)
	if n := r.retire(2 * lateFor); n != 0 || r.Totals() != want {
		t.Errorf("%+v, want %+v; %d are kept", r.Totals(), want, n)
	}
}

// Instances that come and go leave nothing behind but their sums.
func TestTotals_instancesThatComeAndGo(t *testing.T) {
	t.Parallel()
	a := startApp(t, "a1", echo("a1"))
	r := startRig(t, setup{})
	for n := range 10 {
		in := instanceOf(a, "m1")
		in.ID = fmt.Sprint("a", n)
		r.SetInstances([]Instance{in})
		r.get(t, "")
		r.idle(t)
	}
	want := Totals{Requests: 10, NewSessions: 10}
	if got := r.Totals(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := r.retire(2 * lateFor); n != 0 || r.Totals() != want {
		t.Errorf("%+v, want %+v; %d are kept", r.Totals(), want, n)
	}
}
