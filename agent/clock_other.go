//go:build !linux

package agent

import "time"

// monotonic returns nanoseconds on a clock that never steps. On this system it
// may stand still while the machine sleeps.
func monotonic() int64 { return int64(time.Since(start)) }
