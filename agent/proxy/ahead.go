package proxy

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
)

// Challenges answers a certificate authority that asks by HTTP whether a host is
// ours. Its methods are called from many goroutines.
type Challenges interface {
	// Covers reports whether the authority may ask for the host. It must not wait.
	Covers(host string) bool
	// Answer returns what is to be answered to a token. It may wait, for a while.
	Answer(ctx context.Context, token string) (string, bool)
}

const challengePath = "/.well-known/acme-challenge/"

// ahead reports whether the proxy answers the request itself whatever its
// route. It waits for nothing; answerAhead may.
func (x *exchange) ahead() bool {
	return x.challenge() || x.snap.cfg.RedirectHTTPS && !x.c.peer.origin(x.q, x.snap.cfg.Trusted).https
}

// challenge reports whether an authority asks for a host of ours. What others
// obtain certificates for, as an application that does so itself, passes.
func (x *exchange) challenge() bool {
	return x.p.challenges != nil && bytes.HasPrefix(x.q.Path, []byte(challengePath)) && x.p.challenges.Covers(string(hostname(x.q.Host)))
}

// answerAhead answers such a request. It BLOCKS.
func (x *exchange) answerAhead() (keep bool) {
	if !x.challenge() {
		return x.toHTTPS()
	}
	text, ok := x.p.challenges.Answer(context.Background(), string(x.q.Path[len(challengePath):]))
	if !ok {
		return x.answer(http.StatusNotFound, "no certificate authority has been promised an answer here")
	}
	return x.answer(http.StatusOK, text)
}

// toHTTPS sends a client to the same place by https, with the same method.
func (x *exchange) toHTTPS() (keep bool) {
	host := hostname(x.q.Host)
	if len(host) == 0 {
		return x.answer(http.StatusBadRequest, "this is served by https, and the request names no host")
	}
	location := append([]byte("https://"), host...)
	if port := x.snap.cfg.HTTPSPort; port != 0 && port != 443 {
		location = strconv.AppendUint(append(location, ':'), uint64(port), 10)
	}
	if string(x.q.Target) == "*" {
		location = append(location, '/')
	} else {
		location = append(location, x.q.Target...)
	}
	keep = !x.q.Close && x.body.Done() && !x.p.draining.Load()
	return x.say(answer{
		status: http.StatusPermanentRedirect, text: "this is served by https", requestID: x.reqID[:], location: location, close: !keep,
	}) && keep
}
