package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ReverseRole is the first argument that has a bench's program call Reverse.
const ReverseRole = "reverse"

// Reverse is a peer: a bare httputil.ReverseProxy with a cookie, in the bench's own
// program.
func Reverse(name string) Peer {
	return Peer{Name: name, start: func(_ *Runner, s *Setting) (Program, error) {
		self, err := os.Executable()
		return Program{
			Args: []string{self, ReverseRole, s.Addr, s.TLS, s.Cert, s.Key, strings.Join(s.Instances, ",")},
			Env:  []string{"GOMAXPROCS=" + strconv.Itoa(s.Threads)},
		}, err
	}}
}

// ServeReverse is that proxy. args are those behind ReverseRole.
func ServeReverse(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("want 5 arguments, not %q", args)
	}
	addr, secure, cert, key, instances := args[0], args[1], args[2], args[3], strings.Split(args[4], ",")
	s := &http.Server{Handler: reverse(instances), ReadHeaderTimeout: 10 * time.Second, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	if secure != "" {
		l, err := net.Listen("tcp", secure)
		if err != nil {
			return err
		}
		go s.ServeTLS(l, cert, key) //nolint:errcheck // both end with the process
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return s.Serve(l)
}

type chosen struct{}

// reverse passes a request to the instance that its cookie names, or to the next one.
func reverse(instances []string) http.Handler {
	byName := map[string]int{}
	for i := range instances {
		byName[InstanceName(i)] = i
	}
	var turn atomic.Uint64
	p := &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		Rewrite: func(q *httputil.ProxyRequest) {
			q.SetXForwarded()
			i, _ := q.In.Context().Value(chosen{}).(int)
			q.Out.URL.Scheme, q.Out.URL.Host = "http", instances[i]
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		i, ok := 0, false
		if c, err := q.Cookie("SRV"); err == nil {
			i, ok = byName[c.Value], true
		} else if !errors.Is(err, http.ErrNoCookie) {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if !ok {
			i = int(turn.Add(1) % uint64(len(instances)))
			w.Header().Set("Set-Cookie", "SRV="+InstanceName(i)+"; Path=/")
		}
		p.ServeHTTP(w, q.WithContext(context.WithValue(q.Context(), chosen{}, i)))
	})
}
