package agenttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/rondel-project/rondel/api"
)

// clientTimeout is longer than any answer of a healthy agent takes.
const clientTimeout = 10 * time.Second

// Client speaks with one agent's HTTP API, from a machine that no Cut
// separates. Safe for use by many goroutines.
type Client struct {
	http *http.Client
	base string
}

func (c *Cluster) client(addr netip.Addr) *Client {
	return &Client{
		base: "http://" + netip.AddrPortFrom(addr, httpPort).String(),
		http: &http.Client{
			Timeout: clientTimeout,
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
					return c.users.dial(ctx, addr)
				},
				MaxIdleConnsPerHost: 64,
				DisableCompression:  true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// CloseIdle closes the connections that are not in use.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Answer is what an agent answered, or why there is none: then Status is 0.
type Answer struct {
	Status int
	Err    error
	Header http.Header
	Raw    []byte

	// Of JSON answers, whichever there are.
	ID         string
	Version    uint64
	Owner      string
	Replicas   []string
	Attributes map[string]json.RawMessage
	Expires    time.Time
	Created    time.Time
	Value      json.Number
	Length     int
	Stale      bool
	Error      string
	Code       api.Code
	Reasons    []string
}

// OK reports whether it is a success.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Attr returns an attribute's JSON text.
func (a Answer) Attr(name string) string { return string(a.Attributes[name]) }

// String tells the answer in a line.
func (a Answer) String() string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.Error != "":
		return fmt.Sprintf("%d %s: %s", a.Status, a.Code, a.Error)
	}
	return fmt.Sprintf("%d %s", a.Status, bytes.TrimSpace(a.Raw))
}

// Do sends one request. Body is sent as JSON unless nil; header are names and
// values in turn.
func (c *Client) Do(method, path string, body any, header ...string) Answer {
	if body == nil {
		return c.Send(method, path, nil, header...)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return Answer{Err: err}
	}
	return c.Send(method, path, b, append([]string{"Content-Type", "application/json"}, header...)...)
}

// Send sends one request with a body as it is; nil is none.
func (c *Client) Send(method, path string, body []byte, header ...string) (a Answer) {
	var in io.Reader
	if body != nil {
		in = bytes.NewReader(body)
	}
	req, err := http.NewRequest(method, c.base+path, in)
	if err != nil {
		return Answer{Err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer resp.Body.Close()
	a.Header = resp.Header
	if a.Raw, err = io.ReadAll(resp.Body); err != nil {
		return Answer{Err: err}
	}
	a.Status = resp.StatusCode
	if bytes.HasPrefix(a.Raw, []byte("{")) {
		// Fields of another shape are not asked for by who gets that answer.
		_ = json.Unmarshal(a.Raw, &a)
	}
	return a
}

// Raw sends bytes to an agent's API as they are, and returns all that it answers
// until it closes the connection.
func (c *Cluster) Raw(name, request string) string {
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	conn, err := c.users.dial(ctx, netip.AddrPortFrom(addrOf(name), httpPort).String())
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(clientTimeout)); err != nil {
		return err.Error()
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return err.Error()
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return string(answer) + err.Error()
	}
	return string(answer)
}

// Get reads a path.
func (c *Client) Get(path string) Answer { return c.Do(http.MethodGet, path, nil) }

// Attrs are attributes by name; nil removes one in a patch.
type Attrs map[string]any

func sessionPath(id string) string { return "/v1/sessions/" + url.PathEscape(id) }

// Create makes a session; ttl "" is the default.
func (c *Client) Create(attrs Attrs, ttl string, header ...string) Answer {
	if attrs == nil {
		attrs = Attrs{}
	}
	body := map[string]any{"Attributes": attrs}
	if ttl != "" {
		body["TTL"] = ttl
	}
	return c.Do(http.MethodPost, "/v1/sessions", body, header...)
}

// Read reads a session.
func (c *Client) Read(id string) Answer { return c.Get(sessionPath(id)) }

// ReadStale reads a session from any holder.
func (c *Client) ReadStale(id string) Answer { return c.Get(sessionPath(id) + "?consistency=stale") }

// Patch changes some attributes.
func (c *Client) Patch(id string, attrs Attrs, header ...string) Answer {
	return c.Do(http.MethodPatch, sessionPath(id), map[string]any{"Attributes": attrs}, header...)
}

// Put replaces all attributes.
func (c *Client) Put(id string, attrs Attrs, header ...string) Answer {
	return c.Do(http.MethodPut, sessionPath(id), map[string]any{"Attributes": attrs}, header...)
}

// Delete ends a session.
func (c *Client) Delete(id string, header ...string) Answer {
	return c.Do(http.MethodDelete, sessionPath(id), nil, header...)
}

// Touch starts the idle time anew.
func (c *Client) Touch(id string) Answer {
	return c.Do(http.MethodPost, sessionPath(id)+"/touch", nil)
}

// Rotate gives the session a new id.
func (c *Client) Rotate(id string, header ...string) Answer {
	return c.Do(http.MethodPost, sessionPath(id)+"/rotate", nil, header...)
}

// Incr adds to a number.
func (c *Client) Incr(id, name string, by int, header ...string) Answer {
	return c.Do(http.MethodPost, sessionPath(id)+"/attributes/"+url.PathEscape(name)+"/incr", map[string]any{"By": by}, header...)
}

// Ring returns the ring as the agent knows it; empty when it does not answer.
func (c *Client) Ring() (r api.RingInfo) {
	if a := c.Get("/v1/ring"); a.Status == http.StatusOK {
		_ = json.Unmarshal(a.Raw, &r) // an unreadable one is as good as none
	}
	return r
}

// Locate returns who holds a key.
func (c *Client) Locate(key string) (l api.RingLocate) {
	if a := c.Get("/v1/ring/locate/" + url.PathEscape(key)); a.Status == http.StatusOK {
		_ = json.Unmarshal(a.Raw, &l)
	}
	return l
}

// Peers returns the members as the agent sees them.
func (c *Client) Peers() (list []api.Member) {
	if a := c.Get("/v1/agent/members"); a.Status == http.StatusOK {
		_ = json.Unmarshal(a.Raw, &list)
	}
	return list
}

// Servers returns the Raft configuration.
func (c *Client) Servers() (r api.RaftConfiguration) {
	if a := c.Get("/v1/operator/raft/configuration"); a.Status == http.StatusOK {
		_ = json.Unmarshal(a.Raw, &r)
	}
	return r
}
