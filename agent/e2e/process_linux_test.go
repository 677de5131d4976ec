package e2e

import "syscall"

// attributes ends the agents with the tests, however those end.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
