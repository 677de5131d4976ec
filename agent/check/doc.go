// Package check tests the health of instances: by HTTP, by a TCP connection,
// or by heart-beats that the application sends.
//
// It owns the runs of the checks and their state, one per (instance, check);
// two services on one address do not share a state. What it promises:
//
//   - A check is critical before its first success; a change of state needs
//     Rise successes or Fall failures in a row and is told once, with why.
//   - Set keeps the state of a check that did not change.
//   - A probe has a connection of its own, which is closed after it, and never
//     follows a redirect.
//
// It does not know members, does not judge an instance without checks (the
// catalog calls that passing), and does not log: what it finds goes to the
// callback.
package check
