// Package httpapi is the HTTP API's door: it turns requests into calls on the
// parts of the agent, and their answers into the shapes of package api. All
// endpoints stand in one table, in routes.go.
//
// It promises that names in paths are decoded exactly once and never lead to a
// redirect, that JSON values reach the session engine as the text that was
// sent and go out as they were stored, that every failure is a JSON error with
// a stable code, and that bodies, waits and queues are bounded. It logs neither
// session ids nor contents nor keys.
//
// It keeps no state but the Idempotency-Keys of session creations, and decides
// nothing: what it needs from the rest of the agent it asks through the
// interfaces in deps.go.
package httpapi
