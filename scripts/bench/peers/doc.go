// Package peers starts what the benches of the proxy measure: Rondel, HAProxy,
// nginx, Caddy and a bare httputil.ReverseProxy, each with the configuration that
// somebody who wants it fast and sticky would give it, all of it on loopback.
//
// Everything that a Runner starts ends with it: by its Close, and, should the
// bench itself be killed, by a signal from the system. A peer whose program is not
// on the machine is told apart from one that fails, so that a bench can go on
// without it.
//
// It measures nothing itself, but tells what processes have spent.
package peers
