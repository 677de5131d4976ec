// Package version is the verb that says which rondel this is.
package version
