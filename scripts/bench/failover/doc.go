// Command failover is `make bench-failover`: an open loop of requests from sticky
// clients through a proxy to three instances, one of which is killed with kill -9. It
// counts what clients see of that, and what the instances have done.
//
// Requests go out at their times whether or not earlier ones were answered. One in
// five is a POST with a key of its own, which the instance that takes it writes down:
// one key twice is a POST run twice, and a failed POST without a key written down,
// begun after the instance was gone, is one that a proxy should have sent elsewhere.
//
// In front of Rondel's agents the instances keep a counter in each client's session,
// by the session API. A POST adds to it, a GET reads it, and afterwards it must hold
// whatever was acknowledged.
//
// The client repeats nothing by itself: what fails here has failed.
package main
