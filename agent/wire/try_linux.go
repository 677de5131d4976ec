package wire

import (
	"errors"
	"io"

	"github.com/rondel-project/rondel/agent/internal/netloop"
)

const canTry = true

// tryWrite writes to a non-blocking descriptor as much as goes at once, and
// returns how much that was. The scheduler is not told of the call.
func tryWrite(fd uintptr, b []byte) int {
	n, _ := netloop.Write(int(fd), b) // who has to wait for the rest meets the error
	return n
}

// tryRead reads from a non-blocking descriptor once. again says that nothing
// was there yet.
func tryRead(fd uintptr, b []byte) (n int, again bool, err error) {
	if len(b) == 0 {
		return 0, false, nil
	}
	n, err = netloop.Read(int(fd), b)
	switch {
	case errors.Is(err, netloop.ErrAgain):
		return 0, true, nil
	case errors.Is(err, io.EOF):
		return 0, false, nil
	}
	return n, false, err
}
