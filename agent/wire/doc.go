// Package wire carries what agents say to each other over one TCP port.
//
// Every connection begins with a greeting that names the protocol version, the
// lane and both ends, so that a process which restarted, or belongs to another
// cluster, is found out before the first message. Lanes:
//
//   - foreground and bulk carry one-way messages, each on a connection of its
//     own, so that copying a slot never delays a write. The sending side dials;
//     the other answers nothing but pings.
//   - call carries requests and their answers, many at a time.
//   - raft is handed to hashicorp/raft as it is.
//
// The package owns the connections, their queues and all their goroutines;
// Close waits for every one of them.
//
// It promises: Send never blocks and never allocates once its buffers have
// grown; messages of one lane arrive in the order sent, or not at all; what was
// queued for one boot of a member never reaches another; a peer that does not
// read blocks nobody else; everything that waits is bounded in bytes, in number
// or in time; a broken frame costs the connection it came on and nothing more.
//
// It does not: deliver for certain (a message may be lost with its connection:
// upper layers send again), route, relay, authenticate or encrypt (the listener
// and the dial function it is given may do that), know any message's meaning.
//
// Frames have no checksum of their own. TCP's, and TLS's where it is on, catch
// damage on the way; comparing copies catches what damages memory or disk; and
// a third one would cost more per message than everything else here.
package wire
