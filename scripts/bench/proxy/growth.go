//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rondel-project/rondel/scripts/bench/load"
	"github.com/rondel-project/rondel/scripts/bench/peers"
)

// Cases of Rondel alone: what a request costs when there is more of something.
const (
	fewSessions   = "10 sessions"
	manySessions  = "many sessions, 10 in use"
	busySessions  = "many sessions, all in use"
	fewInstances  = "3 instances"
	manyInstances = "100 instances"

	sessionsCase  = "Rondel, sessions"
	instancesCase = "Rondel, instances"
)

// forgotten is after how long an agent remembers no write that it has made itself, for
// the case that it must repeat it, in any of its sessions.
const forgotten = 40 * time.Second

// growth measures Rondel with few and many sessions, and with few and many instances.
func (s *settings) growth(ctx context.Context, res *results) error {
	if !s.peers.MatchString("Rondel") {
		return nil
	}
	if s.only.MatchString(sessionsCase) {
		if err := s.sessionGrowth(ctx, res); err != nil {
			return err
		}
	}
	if s.only.MatchString(instancesCase) {
		return s.instanceGrowth(ctx, res)
	}
	return nil
}

// sessionGrowth has one agent with 10 sessions and one with very many, and requests
// that belong to 10 of them in turn, or to all.
func (s *settings) sessionGrowth(ctx context.Context, res *results) error {
	f, err := s.newField(false, res)
	if err != nil {
		return err
	}
	defer f.r.Close()
	at, err := f.plain(ctx, 3)
	if err != nil {
		return err
	}
	plans := map[*stand]load.Plan{}
	var in, all []*stand
	for _, c := range []struct {
		name string
		n    int
	}{{fewSessions, 10}, {manySessions, max(11, s.sessions)}} {
		ports, err := peers.Ports(1)
		if err != nil {
			return err
		}
		st, err := f.start(ctx, peers.RondelAPI(c.name, s.bin, ports[0]), peers.Setting{Instances: at})
		if err != nil {
			return err
		}
		bound, err := st.clients(ctx, false, 12, 3)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "making %d sessions\n", c.n)
		ids, err := seed(ctx, ports[0], c.n)
		if err != nil {
			return fmt.Errorf("make sessions: %w", err)
		}
		plans[st] = load.Plan{Path: "/1k", Shared: true, Clients: bind(ids[:10], bound)}
		in = append(in, st)
		if c.n > 10 {
			busy := *st
			busy.peer.Name = busySessions
			plans[&busy] = load.Plan{Path: "/1k", Shared: true, Clients: bind(ids, bound)}
			all = append(all, st, &busy)
		} else {
			all = append(all, st)
		}
	}
	fmt.Fprintln(os.Stderr, "waiting until how they were made is forgotten")
	select {
	case <-time.After(forgotten):
	case <-ctx.Done():
		return ctx.Err()
	}
	idle, err := f.rest(ctx, in)
	if err != nil {
		return err
	}
	res.idle = fmt.Sprintf("While nothing is asked of it, the agent with 10 sessions spends %.1f ms of processor time a second, that with %d %.1f ms.\n", idle[0], s.sessions, idle[1])
	fmt.Fprint(os.Stderr, res.idle)
	return f.turns(ctx, sessionsCase, all, plans)
}

// bind makes clients of sessions, by the tags that clients of the instances have.
func bind(ids []string, bound []load.Client) []load.Client {
	out := make([]load.Client, len(ids))
	for i, id := range ids {
		b := bound[i%len(bound)]
		name, value, _ := strings.Cut(b.Cookie, "=")
		out[i] = load.Client{Cookie: name + "=" + id + value[strings.LastIndexByte(value, '.'):], Want: b.Want}
	}
	return out
}

// instanceGrowth has one agent with 3 instances and one with 100, and as many clients
// at both.
func (s *settings) instanceGrowth(ctx context.Context, res *results) error {
	f, err := s.newField(false, res)
	if err != nil {
		return err
	}
	defer f.r.Close()
	at, err := f.plain(ctx, 100)
	if err != nil {
		return err
	}
	plans := map[*stand]load.Plan{}
	var in []*stand
	for _, c := range []struct {
		name string
		n    int
	}{{fewInstances, 3}, {manyInstances, 100}} {
		st, err := f.start(ctx, peers.Rondel(c.name, s.bin), peers.Setting{Instances: at[:c.n]})
		if err != nil {
			return err
		}
		clients, err := st.clients(ctx, false, 300, c.n)
		if err != nil {
			return err
		}
		plans[st] = load.Plan{Path: "/1k", Shared: true, Clients: clients}
		in = append(in, st)
	}
	return f.turns(ctx, instancesCase, in, plans)
}

// seed makes n sessions at an agent's API, many requests in one write.
func seed(ctx context.Context, api string, n int) ([]string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", api)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	const body = `{"Attributes":{"user":"ada"}}`
	one := []byte("POST /v1/sessions HTTP/1.1\r\nHost: " + api + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	const batch = 64
	in := bufio.NewReaderSize(c, 64<<10)
	ids := make([]string, 0, n)
	for len(ids) < n {
		now := min(batch, n-len(ids))
		if _, err := c.Write(bytes.Repeat(one, now)); err != nil {
			return nil, err
		}
		for range now {
			id, err := created(in)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// created reads one answer and returns the new session's id.
func created(in *bufio.Reader) (string, error) {
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	id := strings.TrimPrefix(r.Header.Get("Location"), "/v1/sessions/")
	if r.StatusCode != http.StatusCreated || id == "" {
		return "", fmt.Errorf("%s: %s", r.Status, text)
	}
	return id, nil
}
