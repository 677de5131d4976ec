// Package ring holds the verbs that show the ring: its order, and who holds a
// key. They change nothing.
package ring
