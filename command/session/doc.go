// Package session holds the verbs about sessions: create, get, put, delete,
// list and stats. They use the HTTP API as an application would.
package session
