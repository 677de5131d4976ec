//go:build unix && !linux

package stage

import "syscall"

// attributes keeps a terminal's signals from the processes, which the stage
// ends itself.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
