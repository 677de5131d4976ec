// Package info is the verb that shows an agent's figures for those who run it.
package info
