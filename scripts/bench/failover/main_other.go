//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench-failover: processes are ended with their parent on Linux alone")
	os.Exit(1)
}
