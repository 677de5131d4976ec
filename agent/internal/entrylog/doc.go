// Package entrylog opens hashicorp/raft-wal's log on disk for the parts that
// keep entries in one.
//
// It promises that damaged files are an error and not a panic, that Close closes
// everything, and that a log is read and written again after two ends of a
// process which the library alone does not survive: between the end of one
// segment and the beginning of the next, and after the end of the log was taken
// back.
//
// It does not find an end that is missing, nor flipped bits: raft-wal drops a
// damaged tail silently. Whoever must know gives entries checksums and remembers
// the end.
package entrylog
