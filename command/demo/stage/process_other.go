//go:build !unix

package stage

import "syscall"

// attributes has nothing to ask for here.
func attributes() *syscall.SysProcAttr { return nil }
