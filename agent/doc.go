// Package agent puts the parts of an agent together: it builds them in order,
// connects what one tells to what another asks, and stops them in reverse.
//
// It owns wiring and the life of the process's parts, the data directory's
// lock and identity. It promises that New binds every port before anybody hears
// of the agent, that a failed New leaves nothing behind, and that Run returns
// when all goroutines have ended. It takes no decisions: those are made in the
// packages below it, none of which knows the others.
//
// No two locks of different parts are held at once, but for the session
// engine's: under it only the transport's queue of one peer is locked.
package agent
