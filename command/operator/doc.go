// Package operator holds the verbs for those who run a cluster: what raft
// knows of its servers.
package operator
