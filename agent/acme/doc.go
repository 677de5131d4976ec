// Package acme obtains certificates from a certificate authority, and renews
// them, by the protocol of RFC 8555.
//
// It owns the account with the authority, the certificates it has obtained and
// the folder they are kept in, and what the authority is to be answered when it
// asks for proof: over plain HTTP (HTTP-01) or in a TLS handshake (TLS-ALPN-01,
// RFC 8737).
//
// It promises: all its work is done by Run and ends with it; a certificate that
// is there is never given up for one that is not, or not better; the authority
// is asked ever more seldom while it refuses. Where agents share a cluster, one
// of them orders and the others take over what it got; whichever of them the
// authority asks can answer.
//
// It does not listen, show certificates to clients, prove anything by DNS (so
// it gets no wildcards), or revoke.
package acme
