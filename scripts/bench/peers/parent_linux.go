package peers

import (
	"os/exec"
	"syscall"
)

// bindToParent has a process end when the bench does, however that ends, and keeps
// the signals of the terminal from it: the bench ends it in order.
func bindToParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
