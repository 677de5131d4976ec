// Package reload is the verb that makes an agent read its configuration again.
package reload
