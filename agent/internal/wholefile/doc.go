// Package wholefile writes small files that are found whole after a crash or a
// loss of power: as they were, or as they were to be.
package wholefile
