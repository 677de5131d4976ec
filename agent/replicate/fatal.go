package replicate

import (
	"fmt"
	"runtime/debug"
)

// guard is deferred by whatever works on the core with the lock held. A core
// that panicked half way through a step is in no state that the protocol knows,
// and must not live on: those that recover panics, so that a fault costs one HTTP
// request only, would leave a member that gossips and votes and never answers
// again. So the panic is taken to where nobody recovers it. The lock stays held
// till then.
func (e *Engine) guard() {
	if p := recover(); p != nil {
		e.fatal(p, debug.Stack())
	}
}

// die ends the process. It does not return.
func die(p any, stack []byte) {
	go func() { panic(fmt.Sprintf("in the session core: %v\n\n%s", p, stack)) }()
	select {}
}
