package gossip_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rondel-project/rondel/agent/gossip"
	"github.com/rondel-project/rondel/agent/member"
)

// socketAgent runs gossip on real sockets.
func socketAgent(t *testing.T, name string, change func(*gossip.Options)) (*gossip.Gossip, func() error) {
	t.Helper()
	o := gossip.Options{
		Name: name, Bind: netip.MustParseAddrPort("127.0.0.1:0"),
		Meta: member.Meta{ID: member.NewID(), Boot: member.NewBoot()},
	}
	if change != nil {
		change(&o)
	}
	g, err := gossip.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return g, stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		<-tick.C
	}
}

// Not parallel: it looks for goroutines that are left.
func TestGossip_sockets(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		// The library's last timers end by themselves.
		eventually(t, "no goroutine is left", func() bool { return goleak.Find(before) == nil })
	})
	key := func(o *gossip.Options) { o.Keys = []string{"MDEyMzQ1Njc4OWFiY2RlZg=="} }
	a, _ := socketAgent(t, "a", key)
	b, _ := socketAgent(t, "b", key)
	c, stopC := socketAgent(t, "c", key)
	for _, g := range []*gossip.Gossip{b, c} {
		eventually(t, "it joins", func() bool {
			n, err := g.Join(t.Context(), []string{a.Addr().String()})
			if err != nil {
				t.Log(err) // on a busy machine it may be too late
			}
			return n == 1
		})
	}
	alive := func(g *gossip.Gossip) (n int) {
		for _, m := range g.Members() {
			if m.Status == member.Alive {
				n++
			}
		}
		return n
	}
	eventually(t, "all see all", func() bool { return alive(a) == 3 && alive(b) == 3 && alive(c) == 3 })
	c.SetLocal("long", []byte(strings.Repeat("x", 100_000)))
	eventually(t, "a long record arrives", func() bool { return len(b.Records(c.Self().ID)["long"]) == 100_000 })

	// A stranger that speaks something else is sent away and harms nobody.
	conn, err := net.Dial("tcp", a.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	conn.Close()

	_, err = gossip.New(gossip.Options{Name: "d", Bind: a.Addr(), Meta: member.Meta{ID: member.NewID(), Boot: member.NewBoot()}})
	if err == nil || !strings.Contains(err.Error(), "listen for gossip on "+a.Addr().String()) {
		t.Errorf("a taken port: %v", err)
	}
	if n, err := b.Join(t.Context(), []string{"127.0.0.1:1", b.Addr().String()}); n != 0 || err == nil || !strings.Contains(err.Error(), "join 127.0.0.1:1") {
		t.Errorf("got %d, %v", n, err)
	}
	if err := stopC(); err != nil {
		t.Error(err)
	}
	eventually(t, "the dead one is failed", func() bool { return alive(a) == 2 && alive(b) == 2 })
}
