// Package join is the verb that makes an agent join a cluster.
package join
