// Package e2e tries whole agents as an operator has them: built once, run as
// processes of their own on loopback addresses of their own, stopped by signals,
// asked by the command line and the HTTP API.
//
// It holds only tests. Each cluster has addresses that no other one has, in this
// process or another, so that tests run side by side. Nothing here sleeps for a
// fixed time: what should become so is asked for until it is, within a generous
// deadline, and only the promises about time are measured.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is rondel's executable. TestMain sets it before any test runs.
var program string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rondel-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "rondel")
	build := exec.Command("go", "build", "-o", program, "../..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build rondel: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
