//go:build !linux

package e2e

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
