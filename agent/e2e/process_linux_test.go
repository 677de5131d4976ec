package e2e

import "syscall"

// attributes ends the agents with the tests, however those end.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// unforked does something while no process begins: one that does has all that is
// open here until it runs its program, and a listener that is closed meanwhile
// goes on to take connections, and its port.
func unforked(f func() error) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return f()
}
