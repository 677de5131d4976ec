//go:build !unix

package wire

import "errors"

const canTry = false

func tryWrite(uintptr, []byte) int { return 0 }

func tryRead(uintptr, []byte) (int, bool, error) { return 0, false, errors.ErrUnsupported }
