// Package proxy is the data path of HTTP: it takes requests from clients,
// finds each one's route, session and instance, passes it there, and passes
// the answer back.
//
// Plain requests and open tunnels are carried in event loops, without a goroutine; what is
// unusual gets one, at whatever point it turns out to be, and returns. Either way
// an exchange does the same things in the same order.
//
// It owns client connections, the connections to instances, and the counters
// that both give rise to. It decides from memory only: routes and instances
// are one immutable snapshot behind an atomic pointer, replaced when either
// changes; turns and counters are atomic; no lock is shared by all requests.
// The one question it asks while a client waits is whether an old session id
// still names anything, for at most 100 ms.
//
// What it promises:
//
//   - A client keeps its instance while that is healthy. When it is gone the
//     request goes to another, on the session's owner first, then on its
//     successors, then anywhere, and the same answer carries the one cookie
//     that says so. Where a client goes without a usable tag is computed from
//     its session id, so parallel requests of one client agree.
//   - With Sticky.Learn, a client that brings the application's own id alone,
//     in a cookie, the address or a header, keeps session and instance at every
//     agent, for as long as Bindings keeps what was learned.
//   - A route that redirects sends a client to the member that has its instance,
//     with its session, by a sealed token that is good once, there alone, and
//     for half a minute. Nobody is sent to and fro.
//   - Round robin is exactly even over new clients, by weight too.
//   - An instance gets no more requests at a time than it takes; others wait in
//     the order in which they came, for a bounded time.
//   - What fails real traffic is left alone for a while, but never the last
//     instance, and never for what a client did.
//   - A request that provably did not reach an instance is tried elsewhere
//     whatever its method; any other only when it may be repeated, its whole
//     body can be, and no byte of an answer has left.
//   - What leaves is what came in, byte for byte, except for what RFC 9110
//     makes a proxy change (hop-by-hop fields, Via, Date, Max-Forwards) and the
//     headers of the contract. X-Forwarded-* of whatever name come from trusted
//     proxies alone. Request trailers are checked and dropped, response
//     trailers pass.
//   - Clients and instances may speak HTTP/2; what is promised holds for all of
//     them alike.
//   - A client's hanging up ends the request at the instance and counts
//     against nobody.
//
// What it does not do: it checks no health, keeps no session and knows no
// member but by id. See the contract for the headers and cookies it speaks.
package proxy
