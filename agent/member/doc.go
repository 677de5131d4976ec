// Package member holds the words in which agents speak of each other: the id
// that names a member for life, the boot that names one run of its process,
// the number the leader gave it, and its status as gossip sees it.
//
// It owns these types and their text forms. It decides nothing, keeps no list
// of members and does no I/O.
package member
