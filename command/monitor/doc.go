// Package monitor is the verb that shows an agent's log as it is written.
package monitor
