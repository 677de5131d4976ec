// Package ring holds the verbs about the ring: its order, who holds a key, and
// which member is home to how many slots.
package ring
