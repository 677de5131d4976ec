package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// instance is one instance of the application. It writes down the key of each POST
// before it does anything else.
type instance struct {
	name  string
	work  time.Duration
	agent string // the API of the agent beside it; empty: there are no sessions
	log   io.Writer
	api   *http.Client
}

// serveInstance is the role of an instance: name, address, how long a request takes,
// and the API of its agent, if there is one.
func serveInstance(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("want 4 arguments, not %q", args)
	}
	work, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", args[1])
	if err != nil {
		return err
	}
	i := &instance{name: args[0], work: work, agent: args[3], log: os.Stdout, api: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 5 * time.Second}}
	s := &http.Server{Handler: i, ReadHeaderTimeout: 10 * time.Second}
	return s.Serve(l)
}

// ServeHTTP answers "NAME COUNTER".
func (i *instance) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == "/health" {
		return
	}
	key := q.Header.Get("Key")
	if q.Method == http.MethodPost {
		fmt.Fprintln(i.log, key)
	}
	<-time.After(i.work)
	n := 0
	if i.agent != "" {
		var err error
		if n, err = i.counter(q, key); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	fmt.Fprintln(w, i.name, n)
}

// counter adds to the counter in the client's session, or reads it.
func (i *instance) counter(q *http.Request, key string) (int, error) {
	id := q.Header.Get("Rondel-Session")
	if id == "" {
		return 0, errors.New("no session")
	}
	at := sessionURL(i.agent, id)
	if q.Method != http.MethodPost {
		return readCounter(q.Context(), i.api, at)
	}
	p, err := http.NewRequestWithContext(q.Context(), http.MethodPost, at+"/incr", strings.NewReader(`{"By":1}`))
	if err != nil {
		return 0, err
	}
	p.Header.Set("Idempotency-Key", key)
	r, err := i.api.Do(p)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	var told struct{ Value json.Number }
	if r.StatusCode != http.StatusOK || json.Unmarshal(text, &told) != nil {
		return 0, fmt.Errorf("add: %s: %s", r.Status, text)
	}
	return strconv.Atoi(told.Value.String())
}
