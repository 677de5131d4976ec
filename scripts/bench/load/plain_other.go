//go:build !linux

package load

import "errors"

func runPlain(*Plan, int) (*Tally, error) { return nil, errors.New("load: epoll is Linux's") }
