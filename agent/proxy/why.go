package proxy

// reason is that for which an instance was chosen, as the access log names it.
type reason uint8

// The reasons. What a route's balance chose has the balance's name.
const (
	whyNone      reason = iota
	whyBound            // the client's cookie names it
	whyLearned          // so does what is known of the application's own cookie
	whyOwner            // it is beside the owner of the client's session
	whySuccessor        // it is beside a successor of that owner
	whySession          // all parallel requests of this session go there
	whyRoundRobin
	whyWeighted
	whyRandom
	whyLeastLoad
	whyHash
	whyQueue      // it was the first to have room for who waits in line
	whyBackup     // no other is there
	whyHere       // it is beside the agent whose own address was asked for
	whyLastResort // it refused a connection just now, and so did the others
)

// String returns the word for it.
func (r reason) String() string {
	switch r {
	case whyBound:
		return "bound"
	case whyLearned:
		return "learned"
	case whyOwner:
		return "owner"
	case whySuccessor:
		return "successor"
	case whySession:
		return "session"
	case whyRoundRobin:
		return "round_robin"
	case whyWeighted:
		return "weighted_round_robin"
	case whyRandom:
		return "random"
	case whyLeastLoad:
		return "least_load"
	case whyHash:
		return "hash"
	case whyQueue:
		return "queue"
	case whyBackup:
		return "backup"
	case whyHere:
		return "here"
	case whyLastResort:
		return "last_resort"
	}
	return ""
}

// whyBalance returns the reason of what a route's balance chose.
func whyBalance(rt *route, hashKey []byte) reason {
	how := rt.Balance
	if how == Hash && len(hashKey) == 0 {
		how = rt.HashFallback
	}
	switch how {
	case WeightedRoundRobin:
		return whyWeighted
	case Random:
		return whyRandom
	case LeastLoad:
		return whyLeastLoad
	case Hash:
		return whyHash
	}
	return whyRoundRobin
}

// ending is what ended an exchange, as the access log names it.
type ending uint8

// The endings.
const (
	endDone            ending = iota // all was passed on
	endClient                        // the client went away
	endClientTimeout                 // the client sent, or took, nothing for too long
	endRefused                       // the request is not acceptable
	endNoRoute                       // there is no route for it
	endNoInstance                    // there is no instance for it
	endQueueFull                     // all instances had as much as they take, and the line was full
	endQueueTimeout                  // it stood in line for too long
	endUnreachable                   // no connection to an instance could be made
	endInstance                      // the instance broke off
	endInstanceTimeout               // the instance sent, or took, nothing for too long
	endInvalid                       // the instance's answer made no sense
	endIdle                          // nothing passed through a tunnel for too long
	endStopped                       // the agent stopped, and the time to finish was over
)

// String returns the word for it.
func (e ending) String() string {
	switch e {
	case endClient:
		return "client"
	case endClientTimeout:
		return "client_timeout"
	case endRefused:
		return "refused"
	case endNoRoute:
		return "no_route"
	case endNoInstance:
		return "no_instance"
	case endQueueFull:
		return "queue_full"
	case endQueueTimeout:
		return "queue_timeout"
	case endUnreachable:
		return "unreachable"
	case endInstance:
		return "instance"
	case endInstanceTimeout:
		return "instance_timeout"
	case endInvalid:
		return "invalid_answer"
	case endIdle:
		return "idle"
	case endStopped:
		return "stopped"
	}
	return "done"
}
