// Package keygen is the verb that makes a key for gossip.
package keygen
