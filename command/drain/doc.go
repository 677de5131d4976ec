// Package drain is the verb that empties a member of its sessions while it
// stays a member.
package drain
