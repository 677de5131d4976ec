package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// place is where one agent listens: an address of its own, and four ports in a
// row.
type place struct {
	addr string
	port int
}

const portCount = 4

func (p place) http() string   { return p.at(0) }
func (p place) gossip() string { return p.at(1) }
func (p place) at(i int) string {
	return fmt.Sprintf("%s:%d", p.addr, p.port+i)
}

// flags are the agent's options for the place.
func (p place) flags() []string {
	return []string{
		"-bind=" + p.addr, "-client=" + p.addr, fmt.Sprintf("-http-port=%d", p.port), fmt.Sprintf("-gossip-port=%d", p.port+1),
		fmt.Sprintf("-rpc-port=%d", p.port+2), fmt.Sprintf("-proxy-port=%d", p.port+3),
	}
}

// freePlaces returns n places that nobody uses. They are drawn from millions, so
// that two test processes do not draw the same, and tried. The ports are below
// those that systems give to connections, and not the usual ones, which an agent
// of this machine may have on all addresses.
func freePlaces(t *testing.T, n int) []place {
	t.Helper()
	var last error
	for range 50 {
		// 127.0 is left to people.
		network, port := fmt.Sprintf("127.%d.%d", 1+rand.IntN(254), 1+rand.IntN(254)), 10000+portCount*rand.IntN(5000)
		var out []place
		for i := range n {
			p := place{addr: fmt.Sprintf("%s.%d", network, 11+i), port: port}
			if last = unforked(p.free); last != nil {
				break
			}
			out = append(out, p)
		}
		if len(out) == n {
			return out
		}
	}
	t.Fatalf("no free loopback addresses: %v (these tests need a system whose loopback interface has all of 127.0.0.0/8, as Linux does)", last)
	return nil
}

func (p place) free() error {
	for i := range portCount {
		l, err := net.Listen("tcp", p.at(i))
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}
