// Package unit reads and writes quantities that people type: durations ("30s")
// and sizes ("1MiB"). Files, flags, the environment and the HTTP API share it,
// so that one text has one meaning everywhere.
//
// A number without a unit is refused, whatever it might have meant; so are
// negative, empty and absurdly large quantities. The package does not know what
// an option is and sets no limits of its own beyond MaxDuration and MaxSize.
package unit
