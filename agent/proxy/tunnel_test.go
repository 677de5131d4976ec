package proxy

import (
	"fmt"
	"net/http"
	"testing"
)

// D-17: tunnels count as load.
func TestTunnel_countsAsLoad(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n := range 3 {
		list = append(list, instanceOf(startApp(t, fmt.Sprint("a", n), switching), "m1"))
	}
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg.Routes[0].Balance = LeastLoad
	r := startRig(t, setup{cfg: cfg, apps: list})
	for range 30 {
		_, br := r.send(t, fmt.Sprintf(handshake, "Upgrade", "websocket"))
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(err)
		}
	}
	for _, c := range r.Counters() {
		if c.InFlight != 10 {
			t.Errorf("%s has %d", c.ID, c.InFlight)
		}
	}
}
