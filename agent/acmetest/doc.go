// Package acmetest is a certificate authority for tests: Pebble, which checks a
// client of ACME strictly, in this process, with a resolver by which every name
// is this machine.
//
// Pebble's goroutine that validates never ends; tests that look for goroutines
// left behind start with Options.
package acmetest
