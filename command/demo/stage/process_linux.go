package stage

import "syscall"

// attributes keeps a terminal's signals from the processes, which the stage
// ends itself, and ends them with it should it be killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
