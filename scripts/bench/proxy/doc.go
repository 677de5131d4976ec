// Command proxy is `make bench-proxy`: it drives Rondel, HAProxy, nginx, Caddy and a
// bare httputil.ReverseProxy in turn, round by round, each with sticky cookies and in
// front of the same instances, and tells what a request costs each of them.
//
// What counts is the processor time of the proxy alone, from /proc, and its ratio to
// HAProxy's of the same round. Before a case each peer shows that it sticks. A case in
// which anything was answered wrongly has no figures.
//
// The program runs itself for what it needs beside the peers: the load, the bare
// proxy, and instances that speak WebSocket.
package main
