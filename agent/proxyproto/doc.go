// Package proxyproto reads and writes the PROXY protocol, versions 1 and 2: the
// few bytes ahead of a connection by which a balancer says who its client is.
//
// It promises: Read takes exactly the header's bytes from the connection, never
// one more, so that whatever comes next may read from the bare socket; it takes
// at most MaxHeader of them; it accepts only what the specification allows, and
// guesses nothing: a connection that begins with anything else is an error.
//
// It does not: decide whose header is believed, bound the time (the connection's
// deadline does), or tell what type-length-value fields of version 2 say, beyond
// checking the checksum where one is.
package proxyproto
