//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// network is a switch among machines: each is a namespace with one TUN device,
// but for the last, this process's own, where the clients are. This process
// carries the packets from one to the other, or does not.
type network struct {
	names []string // of the namespaces
	devs  []*os.File
	work  sync.WaitGroup

	mu    sync.RWMutex
	links map[[2]int]link
}

// link is what happens to packets one way; the zero value carries them at once.
type link struct {
	cut   bool
	delay time.Duration
	loss  float64
}

// address returns the address of a namespace.
func address(i int) string { return fmt.Sprintf("10.99.0.%d", i+1) }

// newNetwork makes n namespaces for agents, and a device for clients here.
func newNetwork(ctx context.Context, n int) (_ *network, err error) {
	w := &network{links: map[[2]int]link{}}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	for i := range n + 1 {
		dev := fmt.Sprintf("ch%d-%d", os.Getpid()%100000, i)
		f, err := openTUN(dev)
		if err != nil {
			return nil, fmt.Errorf("open a TUN device: %w", err)
		}
		w.devs = append(w.devs, f)
		var at []string
		if i < n {
			name := fmt.Sprintf("chaos-%d-%d", os.Getpid(), i)
			if err := ip("netns", "add", name); err != nil {
				return nil, err
			}
			w.names = append(w.names, name)
			if err := ip("link", "set", "dev", dev, "netns", name); err != nil {
				return nil, err
			}
			at = []string{"-n", name}
		}
		for _, args := range [][]string{
			{"addr", "add", address(i) + "/24", "dev", dev},
			{"link", "set", "dev", dev, "up", "mtu", "1400"},
			{"link", "set", "dev", "lo", "up"},
		} {
			if err := ip(append(at, args...)...); err != nil {
				return nil, err
			}
		}
	}
	for i := range w.devs {
		w.work.Go(func() { w.carry(ctx, i) })
	}
	return w, nil
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	return nil
}

func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	req, err := unix.NewIfreq(name)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// carry takes what one namespace sends to whoever it is for.
func (w *network) carry(ctx context.Context, from int) {
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := w.devs[from].Read(buf)
		if err != nil {
			return
		}
		p := buf[:n]
		if n < 20 || p[0]>>4 != 4 || p[16] != 10 || p[17] != 99 || p[18] != 0 {
			continue
		}
		to := int(p[19]) - 1
		if to < 0 || to >= len(w.devs) || to == from {
			continue
		}
		w.mu.RLock()
		l := w.links[[2]int{from, to}]
		w.mu.RUnlock()
		if l.cut || l.loss > 0 && rand.Float64() < l.loss {
			continue
		}
		if l.delay == 0 {
			w.devs[to].Write(p) // a packet that finds no room is lost, as on any network
			continue
		}
		late := append([]byte(nil), p...)
		time.AfterFunc(l.delay, func() { w.devs[to].Write(late) })
	}
}

// set changes the way from a to b, and back unless oneWay.
func (w *network) set(a, b int, l link, oneWay bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.links[[2]int{a, b}] = l
	if !oneWay {
		w.links[[2]int{b, a}] = l
	}
}

// isolate takes a machine off the network: nothing answers there, not even with
// a refusal.
func (w *network) isolate(i int) {
	for k := range w.devs {
		if k != i {
			w.set(i, k, link{cut: true}, false)
		}
	}
}

// heal mends everything.
func (w *network) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.links)
}

func (w *network) close() error {
	var errs []error
	for _, f := range w.devs {
		errs = append(errs, f.Close())
	}
	w.work.Wait()
	for _, name := range w.names {
		errs = append(errs, ip("netns", "del", name))
	}
	return errors.Join(errs...)
}
