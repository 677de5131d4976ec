package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// sessionURL is where the counter of a session is.
func sessionURL(api, id string) string {
	return "http://" + api + "/v1/sessions/" + id + "/attributes/items"
}

// readCounter reads a counter; 0 where there is none yet.
func readCounter(ctx context.Context, c *http.Client, url string) (int, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	r, err := c.Do(q)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	switch r.StatusCode {
	case http.StatusNotFound:
		return 0, nil
	case http.StatusOK:
		return strconv.Atoi(strings.TrimSpace(string(text)))
	}
	return 0, fmt.Errorf("read the session: %s: %s", r.Status, text)
}

// sessionOf is the id in a cookie of Rondel.
func sessionOf(cookies map[string]string) string {
	id, _, _ := strings.Cut(cookies["RONDEL"], ".")
	return id
}
