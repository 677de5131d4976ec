// Package version says which rondel this is: the release, and the commit and
// date that the build stamps in with -ldflags -X.
//
// It holds three texts and their presentation. It does not compare versions.
package version
