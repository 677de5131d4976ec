package proxy

import (
	"net/http"
	"strconv"
)

// ahead reports whether the proxy answers the request itself whatever its
// route. It waits for nothing; answerAhead may.
func (x *exchange) ahead() bool {
	return x.snap.cfg.RedirectHTTPS && !x.c.peer.origin(x.q, x.snap.cfg.Trusted).https
}

// answerAhead answers such a request.
func (x *exchange) answerAhead() (keep bool) {
	return x.toHTTPS()
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
