package leaktest

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines have to end.
const patience = 30 * time.Second

// Main runs the tests of a package, from its TestMain, and ends the process. It
// fails when goroutines are left.
func Main(m goleak.TestingM, options ...goleak.Option) { os.Exit(run(m, patience, options...)) }

func run(m goleak.TestingM, most time.Duration, options ...goleak.Option) int {
	if code := m.Run(); code != 0 {
		return code
	}
	end := time.Now().Add(most)
	for {
		err := goleak.Find(options...) // looks again and again by itself, and pauses between
		if err == nil {
			return 0
		}
		if time.Now().After(end) {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			return 1
		}
	}
}
