// Package api is the Go client of a Rondel agent's HTTP API, and the one home
// of the shapes that travel over it: the agent's own HTTP layer uses these
// types too, so client and server cannot disagree.
//
// Start with [NewClient] and [DefaultConfig], then pick a group of calls:
// [Client.Agent], [Client.Ring], [Client.Catalog], [Client.Sessions],
// [Client.Status], [Client.Health] and [Client.Operator].
//
// It promises that a failed call says why in a way a program can test: an
// answer of the agent that is not a success is an [*Error] with the status and
// a stable code, an agent that cannot be reached is an [*UnreachableError] that
// names the address tried. Attribute values are kept as the JSON text that was
// sent. A Client is safe for use by many goroutines.
//
// It does not retry, cache, or choose another agent: a write whose outcome is
// unknown is the caller's to repeat, with [WithIdempotencyKey].
package api
