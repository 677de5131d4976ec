// Command chaos runs real agents in network namespaces of its own, breaks them
// and the network between them while writers work, and checks what the writers
// were told: acknowledged writes lost, operations done twice, deleted sessions
// that came back, sessions said not to exist, and how long nobody could write.
//
// It needs root and iproute2. Everything that it makes is removed when it ends;
// it ends only processes that it has started. It writes a report and exits with
// 1 where a promise is broken.
package main
