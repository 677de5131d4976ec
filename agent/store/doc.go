// Package store keeps on disk what a member holds (session.durability = "disk"):
// a write-ahead log of what agent/replicate logs, in a directory of its own.
//
// It promises that what it has called synced is there after the process dies
// (and, with fsync = "always", after the machine loses its power); that a log
// which was cut short or damaged is found, told with file and offset, and not
// handed out from there on; and that a store id names only a log that holds
// everything its member holds. When the disk fails, hangs or is full it steps aside:
// sessions go on from memory, and a new log is begun as soon as there is room.
//
// A snapshot is not a file of its own: the members' records are logged anew, slot
// by slot, and the log before that is cut off.
//
// It knows nothing of sessions: the records are bytes to it.
package store
