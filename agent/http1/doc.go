// Package http1 is Rondel's HTTP/1.1 core: it reads message heads, moves
// bodies, and keeps connections to instances for reuse.
//
// It owns the syntax of RFC 9112 and nothing above it: [Request] and
// [Response] are parsed in place over the buffer that received them, [Body]
// moves one body piece by piece in the form in which it goes on, [Conn] is a
// network connection with such a buffer, [Pool] keeps idle ones.
//
// What it promises:
//
//   - One reading of every message. Whatever two implementations might read
//     differently (two lengths, a length beside a transfer coding, bare line
//     feeds, folded lines, a space before the colon, control bytes, crooked
//     chunk sizes) is refused, never repaired, so that nobody behind it can
//     see another message than it saw. The few tolerated oddities leave in
//     their plain form: lengths repeated alike as one, chunk extensions not
//     at all.
//   - No more is taken than net/http takes, and nothing is read otherwise,
//     which the fuzzers hold it to. Three things are: empty lines ahead of a
//     request, targets that its URL parser cannot take apart, and fields of
//     trailers that were announced and may not be one; what is passed on has
//     none of the first and the last.
//   - No allocation per field. Fields are slices of the receive buffer; they
//     hold until the next read from that connection.
//   - One read and one write per piece: what has arrived goes on at once, so
//     event streams are never held back.
//
// It does not route, does not log, does not know headers of Rondel's own,
// and starts no goroutine.
package http1
