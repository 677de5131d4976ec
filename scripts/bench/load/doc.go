// Package load drives HTTP/1.1 at a proxy as cheaply as it can: it shares the
// machine with what it measures.
//
// A plan goes in, a tally comes out. Plain connections are carried by epoll, one
// thread or two, with nothing allocated for a request; TLS by goroutines on
// crypto/tls. Each connection has one request in flight. Every answer is held to
// what it must be: status 200, a Content-Length, and a body that begins with the
// name of the instance that the request's cookie belongs to. What is not so is an
// error, counted by kind.
//
// It knows nothing of peers, processes or processor time.
package load
