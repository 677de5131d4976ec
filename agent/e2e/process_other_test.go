//go:build !linux

package e2e

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

func unforked(f func() error) error { return f() }
