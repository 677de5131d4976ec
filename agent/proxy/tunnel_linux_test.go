package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// tunnelled waits until n tunnels are in loops, and nothing has a goroutine.
func (r *rig) tunnelled(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d tunnels in loops", n), func() bool {
		in := 0
		r.loops.each(func(w *worker) { in += len(w.tunnels) })
		_, _, goroutines := r.where()
		return in == n && goroutines == 0
	})
}

// full waits until the side of the only tunnel that is meant takes no more, and
// returns how much is kept for it.
func (r *rig) full(t testing.TB, side int) (kept int) {
	t.Helper()
	eventually(t, "one side takes no more", func() bool {
		r.loops.each(func(w *worker) {
			for _, tun := range w.tunnels {
				kept = max(kept, len(tun.ends[side].unsent))
			}
		})
		return kept > 0
	})
	return kept
}

// heldByTunnels is how many of the tunnels in loops hold one.
func (r *rig) heldByTunnels() (n int) {
	r.loops.each(func(w *worker) {
		for _, tun := range w.tunnels {
			for i := range tun.ends {
				if e := &tun.ends[i]; e.space != nil || e.unsent != nil {
					n++
				}
			}
		}
	})
	return n
}

// Not parallel: it counts the goroutines of all.
func TestTunnel_idleOnesHaveNoGoroutine(t *testing.T) {
	const tunnels = 300
	r, a := oneIn(t, 1, sockets("a1"))
	nc, br := r.send(t, wsHandshake)
	rawHead(t, br)
	nc.Close()
	r.tunnelled(t, 0)
	eventually(t, "the app's connections end", func() bool { open, _ := a.conns(); return open == 0 })
	before := runtime.NumGoroutine()
	var ncs []net.Conn
	for range tunnels {
		nc, br := r.send(t, wsHandshake)
		rawHead(t, br)
		io.WriteString(nc, "something")
		ncs = append(ncs, nc)
	}
	r.tunnelled(t, tunnels)
	// One for each connection of the app, and what the runtime may have begun.
	eventually(t, "no goroutines but the app's", func() bool { return runtime.NumGoroutine() < before+tunnels+20 })
	eventually(t, "no buffers are held", func() bool { return r.heldByTunnels() == 0 })
	for _, nc := range ncs {
		nc.Close()
	}
	r.tunnelled(t, 0)
	if f := r.idle(t).Failures; f != 0 {
		t.Errorf("%d failures", f)
	}
}

// What one side does not take is not read from the other, is not lost, and does
// not hold up the other direction.
func TestTunnel_backPressure(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"client", "app"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			a, next := pipes(t)
			r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
			client, br := r.send(t, wsHandshake)
			rawHead(t, br)
			sender, receiver, fullSide := client, next(), 1
			if from == "app" {
				sender, receiver, fullSide = receiver, sender, 0
			}
			for _, nc := range []net.Conn{sender, receiver} {
				nc.SetDeadline(time.Now().Add(60 * time.Second))
			}
			stop, sent := make(chan struct{}), make(chan int, 1)
			go func() {
				total := 0
				defer func() { sent <- total }()
				for {
					select {
					case <-stop:
						sender.(interface{ CloseWrite() error }).CloseWrite()
						return
					default:
					}
					n, err := sender.Write(counted(total, 64<<10))
					if total += n; err != nil {
						t.Errorf("the sender after %d bytes: %v", total, err)
						return
					}
				}
			}()
			if kept := r.full(t, fullSide); kept > loopFewBytes {
				t.Errorf("%d bytes are kept", kept)
			}
			// What comes meanwhile stays where it is.
			for range 100 {
				r.loops.each(func(w *worker) {
					for _, tun := range w.tunnels {
						tun.ends[1-fullSide].pass()
					}
				})
			}
			// The other way is open, and much of it does not make the loop forget that
			// somebody waits for room.
			burst := counted(0, 8<<20)
			go receiver.Write(burst) // what is missing shows below
			back := make([]byte, len(burst))
			if n, err := io.ReadFull(sender, back); err != nil || !bytes.Equal(back, burst) {
				t.Errorf("of the other way came %d bytes, %v", n, err)
			}
			close(stop)
			got := 0
			piece := make([]byte, 100_000)
			for {
				n, err := receiver.Read(piece)
				if !bytes.Equal(piece[:n], counted(got, n)) {
					t.Fatalf("other bytes at %d", got)
				}
				got += n
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if want := <-sent; got != want {
				t.Errorf("%d bytes of %d", got, want)
			}
			if n := r.heldByTunnels(); n != 0 {
				t.Errorf("%d buffers are held", n)
			}
			receiver.Close()
			sender.Close()
			r.tunnelled(t, 0)
			r.idle(t)
		})
	}
}

// A tunnel both of whose sides are full can be cut.
func TestTunnel_closedWhileFull(t *testing.T) {
	t.Parallel()
	a, next := pipes(t)
	r := startRig(t, setup{loops: 1, apps: []Instance{instanceOf(a, "m1")}})
	client, br := r.send(t, wsHandshake)
	rawHead(t, br)
	ended := make(chan struct{}, 2)
	for _, nc := range []net.Conn{client, next()} {
		go func() {
			for {
				if _, err := nc.Write(make([]byte, 64<<10)); err != nil {
					ended <- struct{}{}
					return
				}
			}
		}()
	}
	r.full(t, 0)
	r.full(t, 1)
	r.Close()
	<-ended
	<-ended
	r.tunnelled(t, 0)
	if n := r.idle(t).InFlight; n != 0 || r.Connections().Open != 0 {
		t.Errorf("%d in flight, %+v", n, r.Connections())
	}
}
