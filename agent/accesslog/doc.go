// Package accesslog writes one line per proxied request, as JSON or in the
// combined format of Apache and nginx, to a file or to one of the agent's own
// streams.
//
// It owns the form of a line, the buffers between those who log and the file,
// and the file itself: one that was moved away is made anew, also by Reopen.
//
// What it promises: logging never waits, whatever the file does. Lines wait in
// memory for a tenth of a second at most while the file takes them; when it
// does not, so many are kept, and the rest are dropped, counted, and told in
// the agent's log. A line is written as a whole or not at all, and nothing that
// a client sends can end one early, begin another, or be read as another field.
// Lines come in the order of the requests' ends, but for those that ended
// within that tenth of a second. Logging allocates nothing.
//
// What it does not log: cookies, session ids, values of query parameters unless
// it is told to, values of path parameters ever.
package accesslog
