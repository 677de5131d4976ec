// Package leave is the verb that makes an agent leave its cluster for good.
package leave
