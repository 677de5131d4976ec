//go:build linux

package main

import (
	"github.com/rondel-project/rondel/scripts/bench/load"
	"github.com/rondel-project/rondel/scripts/bench/peers"
)

// caseOf is one load that all peers get.
type caseOf struct {
	name   string
	free   bool // nothing pinned, two threads each; else the proxy has one processor to itself
	plan   load.Plan
	fresh  bool // every request is a new client's
	splice bool // HAProxy with splicing is measured too
}

// conns is how many requests are in flight.
const conns = 64

// cases are those with peers. In the first ones every connection carries the requests
// of all clients in turn: the dearer way for a proxy that has to check a signature.
var cases = []caseOf{
	{name: "1 KiB, pinned", plan: load.Plan{Path: "/1k", Shared: true}},
	{name: "1 KiB, a client a connection, pinned", plan: load.Plan{Path: "/1k"}},
	{name: "64 KiB, pinned", plan: load.Plan{Path: "/64k", Shared: true}, splice: true},
	{name: "1 KiB, each a new client, pinned", plan: load.Plan{Path: "/1k"}, fresh: true},
	{name: "1 KiB, each a new connection, pinned", plan: load.Plan{Path: "/1k", Close: true}},
	{name: "1 KiB, TLS, pinned", plan: load.Plan{Path: "/1k", Shared: true, TLS: true}},
	{name: "1 KiB, each a TLS handshake, pinned", plan: load.Plan{Path: "/1k", TLS: true, Close: true}},
	{name: "1 KiB, free", free: true, plan: load.Plan{Path: "/1k", Shared: true}},
	{name: "64 KiB, free", free: true, plan: load.Plan{Path: "/64k", Shared: true}, splice: true},
}

// base is the peer that all others are compared with.
const base = "HAProxy"

// spliced is HAProxy moving bodies from socket to socket inside the kernel.
const spliced = "HAProxy, splice"

func (s *settings) everyone() []peers.Peer {
	list := []peers.Peer{
		// All clients share the connections to instances, as Rondel's do: that is the
		// cheapest, above all for clients with new connections.
		peers.HAProxy(base, peers.HAProxyOptions{Defaults: []string{"http-reuse always"}}),
		peers.HAProxy(spliced, peers.HAProxyOptions{Defaults: []string{"http-reuse always", "option splice-response"}}),
		peers.Rondel("Rondel", s.bin),
		peers.Nginx("nginx"),
		peers.Caddy("Caddy"),
		peers.Reverse("httputil"),
	}
	if s.against != "" {
		list = append(list, peers.Rondel("Rondel before", s.against))
	}
	return list
}
