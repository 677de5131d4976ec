// Package stage sets up what the demo plays on: three agents and three shop
// instances as processes of their own, each pair on an address that stands for
// a machine, and one front address before them.
//
// It promises to leave nothing behind: Close ends every process it started and
// removes its directory, and on Linux the processes end with the one that
// started them, however that ends. It kills by process, never by name, and
// restarts nothing unless asked.
package stage
