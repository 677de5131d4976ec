// Package netloop waits for many TCP connections in one goroutine, as the event
// loops of single-threaded servers do.
//
// A goroutine for each connection costs a small request more in the scheduler
// than in the handler: a read that finds nothing ahead of each wait, a processor
// that goes idle and is woken through a futex, and the runtime's monitor thread,
// which looks every 20 µs, for a millisecond, at processors that were in a
// system call just now. Here one goroutine asks epoll which connections have
// something, and reads and writes them with calls that cannot block and of which
// the scheduler is not told. While none has anything, the goroutine waits in the
// runtime's own poller for the epoll descriptor.
//
// It exists on Linux; elsewhere New returns ErrUnsupported and connections keep
// their goroutines.
package netloop
