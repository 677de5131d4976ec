//go:build !linux

package agent

// sinceBoot says that this system has no clock that runs on while it sleeps.
func sinceBoot() (ns int64, ok bool) { return 0, false }
