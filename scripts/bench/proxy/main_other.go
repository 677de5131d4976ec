//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench-proxy: what processes spend is read from Linux's /proc")
	os.Exit(1)
}
