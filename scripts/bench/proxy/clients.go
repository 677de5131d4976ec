//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rondel-project/rondel/scripts/bench/load"
)

// clients makes n new clients at a peer, and makes sure that it sticks: each of them
// comes back to its instance whenever it brings its cookie, and together they are at
// all instances.
func (st *stand) clients(ctx context.Context, secure bool, n, instances int) ([]load.Client, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the bench's own certificate
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	url := "http://" + st.addr + "/1k"
	if secure {
		url = "https://" + st.tls + "/1k"
	}
	var out []load.Client
	seen := map[string]bool{}
	for len(out) < n || len(seen) < instances {
		if len(out) >= 20*n {
			return nil, fmt.Errorf("%d new clients came to %d instances of %d", len(out), len(seen), instances)
		}
		name, cookie, err := ask(ctx, c, url, "")
		if err != nil {
			return nil, err
		}
		if cookie == "" {
			return nil, fmt.Errorf("a new client was given no cookie")
		}
		for range 5 {
			again, _, err := ask(ctx, c, url, cookie)
			if err != nil {
				return nil, err
			}
			if again != name {
				return nil, fmt.Errorf("it does not stick: a client of %s came to %s", name, again)
			}
		}
		out, seen[name] = append(out, load.Client{Cookie: cookie, Want: name}), true
	}
	return out, nil
}

// ask tells which instance answered, and what cookies it set.
func ask(ctx context.Context, c *http.Client, url, cookie string) (name, set string, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", "", err
	}
	if cookie != "" {
		q.Header.Set("Cookie", cookie)
	}
	r, err := c.Do(q)
	if err != nil {
		return "", "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", "", err
	}
	if r.StatusCode != http.StatusOK || len(body) != 1024 {
		return "", "", fmt.Errorf("%s with %d bytes", r.Status, len(body))
	}
	var all []string
	for _, c := range r.Cookies() {
		all = append(all, c.Name+"="+c.Value)
	}
	return string(body[:load.NameLen]), strings.Join(all, "; "), nil
}
