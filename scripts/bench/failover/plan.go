package main

import (
	"fmt"
	"time"
)

// plan is what is sent when.
type plan struct {
	rate    int // requests a second
	clients int
	each    time.Duration // of one run
	kill    time.Duration // after which the instance is killed
	work    time.Duration // what an instance takes for a request
}

// planned is one request of a plan.
type planned struct {
	at     time.Duration
	client int
	key    string // of a POST; empty: a GET
}

// requests are all of a run. Clients take turns, and one request of each client in
// five is a POST.
func (p *plan) requests() []planned {
	out := make([]planned, int(p.each.Seconds()*float64(p.rate)))
	for i := range out {
		turn := i / p.clients
		q := planned{at: time.Duration(i) * time.Second / time.Duration(p.rate), client: i % p.clients}
		if (turn+q.client)%5 == 0 {
			q.key = fmt.Sprintf("k%06d", i)
		}
		out[i] = q
	}
	return out
}
