package version

import "runtime"

// Release is the version of the source tree; the part behind the dash is empty
// in a release.
const Release = "0.1.0-dev"

// Stamped by GNUmakefile; never written by the program.
var (
	commit string
	date   string
)

// Info is what `rondel version` shows.
type Info struct {
	Version string
	Commit  string
	Date    string
	Go      string
}

// Get returns the version of this binary.
func Get() Info { return Info{Version: Release, Commit: commit, Date: date, Go: runtime.Version()} }

// String returns one line for people: "rondel v0.1.0-dev (abc1234)".
func (i Info) String() string {
	s := "rondel v" + i.Version
	if i.Commit != "" {
		s += " (" + i.Commit + ")"
	}
	return s
}
