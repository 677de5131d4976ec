// Package load holds how busy a member is: the share of its processors in
// use, the requests in flight through its proxy, and the requests per second.
//
// It owns the value, its short form on the wire, its decay over time and the
// order of two loads. All of that is pure; only Sampler asks the system. It
// does not decide who gets a request.
package load
