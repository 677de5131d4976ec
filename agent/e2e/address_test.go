package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// ports are those that an agent listens on.
func ports() []int { return []int{8700, 8701, 8702, 8780} }

// freeAddresses returns loopback addresses on which all of an agent's usual
// ports are free. They are drawn from millions, so that two test processes do
// not draw the same, and tried, so that it does not matter if they do.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	var last error
	for range 50 {
		// 127.0 is left to people.
		net := fmt.Sprintf("127.%d.%d", 1+rand.IntN(254), 1+rand.IntN(254))
		var out []string
		for i := range n {
			addr := fmt.Sprintf("%s.%d", net, 11+i)
			if last = free(addr); last != nil {
				break
			}
			out = append(out, addr)
		}
		if len(out) == n {
			return out
		}
	}
	t.Fatalf("no free loopback addresses: %v (these tests need a system whose loopback interface has all of 127.0.0.0/8, as Linux does)", last)
	return nil
}

func free(addr string) error {
	for _, port := range ports() {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", addr, port))
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
	}
	return nil
}
