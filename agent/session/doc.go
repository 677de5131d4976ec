// Package session holds what a session is: its id, its record with attributes
// and versions, what a request does to a record, how two records merge, and
// how all of that looks on the wire.
//
// It promises that records are immutable once made, that Apply and Merge
// depend on nothing but their arguments, and that every decoder of outside
// bytes returns an error rather than a broken record.
//
// It does not decide who owns a session, sends nothing and keeps no clock: the
// caller passes the time in.
package session
