// Package http2 carries HTTP/1.1 over HTTP/2 connections: at the side of the
// clients each stream becomes an in-memory connection that a request comes in
// by, at the side of the instances each request that is written to such a
// connection becomes a stream.
//
// It owns connections that speak HTTP/2, of either role: frames and their
// order, header compression, windows, and what RFC 9113 says of requests and
// responses. [Server] is one connection from a client, [Client] all those to
// one instance. Between them and who uses them lie [net.Conn]s that exist in
// memory alone: what is read there is HTTP/1.1 without any ambiguity, and what is
// written there must be.
//
// What it promises:
//
//   - Path, field values and bodies pass as they are. Field names leave in lower
//     case, cookie crumbs are joined, and what RFC 9113 calls malformed ends its
//     stream and never becomes a request.
//   - Each side waits for the other: a window opens as its bytes are read, and
//     a write waits for the window. Both end at the deadlines of their
//     connection, as reads and writes of a socket do.
//   - Trailers of responses pass in either direction, announced or not. Those of
//     requests are checked and dropped, as HTTP/1.1 has them here.
//   - A stream that its peer has reset is an error of the next read and write. A
//     connection that is closed before its message's end resets its stream.
//   - A request that the instance has declared not to have looked at is told
//     from others by [ErrUnprocessed].
//   - Nothing that a peer sends without paying for it is kept or answered
//     without bound: see the limits in [Server].
//
// What it does not do: it takes no decision about requests, and it neither
// pushes nor uses priorities. HTTP/1.1 itself is the business of package http1.
package http2
