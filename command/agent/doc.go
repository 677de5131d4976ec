// Package agent is the verb that runs an agent: it merges the configuration,
// turns signals into a stop, a leave or a reload, and the end into an exit code.
//
// It knows nothing of what an agent does. An agent that fails to start has left
// nothing behind when the verb returns; a second signal ends the process at
// once.
package agent
