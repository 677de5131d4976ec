package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds what the client reads of one answer into memory.
const maxAnswer = 64 << 20

// Client speaks with one agent.
type Client struct {
	at      endpoint
	token   string
	timeout time.Duration
	http    *http.Client
}

// NewClient checks the configuration. It opens no connection.
func NewClient(cfg Config) (*Client, error) {
	at, err := parseAddress(cfg.Address)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := cfg.tlsConfig()
	if err != nil {
		return nil, err
	}
	timeout := cfg.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	dialer := &net.Dialer{Timeout: min(timeout, defaultTimeout)}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: timeout,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     60 * time.Second,
		DisableCompression:  true,
	}
	if at.unix != "" {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", at.unix)
		}
	}
	return &Client{
		at:      at,
		token:   cfg.Token,
		timeout: timeout,
		http: &http.Client{
			Transport: transport,
			// The API never redirects; following one would carry the token
			// to a stranger.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Address returns the address that the client speaks to, as errors name it.
func (c *Client) Address() string { return c.at.shown }

// Close closes idle connections. The client may be used afterwards.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Agent groups the calls about the agent itself.
func (c *Client) Agent() Agent { return Agent{c} }

// Ring groups the calls about the ring.
func (c *Client) Ring() Ring { return Ring{c} }

// Catalog groups the calls about all members' services.
func (c *Client) Catalog() Catalog { return Catalog{c} }

// Sessions groups the calls about sessions.
func (c *Client) Sessions() Sessions { return Sessions{c} }

// Status groups the calls about the cluster's leader.
func (c *Client) Status() Status { return Status{c} }

// Health groups the calls about an agent's health.
func (c *Client) Health() Health { return Health{c} }

// Operator groups the calls for those who run a cluster.
func (c *Client) Operator() Operator { return Operator{c} }

// Wait makes a read wait until something has changed.
type Wait struct {
	Index uint64        // the index of the last answer; 0: answer at once
	Max   time.Duration // answer after this time in any case; 0: as the agent likes
}

func (w Wait) query(q url.Values) url.Values {
	if q == nil {
		q = url.Values{}
	}
	if w.Index > 0 {
		q.Set("index", strconv.FormatUint(w.Index, 10))
	}
	if w.Max > 0 {
		q.Set("wait", w.Max.String())
	}
	return q
}

// call is one request of the API.
type call struct {
	method string
	path   string // escaped
	query  url.Values
	header http.Header
	body   any  // marshalled as JSON; []byte: sent as it is
	slow   bool // the agent may take its time to answer
}

// path joins a fixed prefix and names, each escaped as one segment.
func path(prefix string, names ...string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, n := range names {
		b.WriteByte('/')
		b.WriteString(escapeSegment(n))
	}
	return b.String()
}

// escapeSegment escapes a name so that it stays one segment of a path, also
// "." and "..", which clients and proxies like to fold.
func escapeSegment(s string) string {
	switch s {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	return url.PathEscape(s)
}

// do sends a call and returns the answer if it is a success or 304; the
// caller closes its body.
func (c *Client) do(ctx context.Context, in call) (*http.Response, error) {
	var body io.Reader
	header := in.header
	if header == nil {
		header = http.Header{}
	}
	switch b := in.body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	default:
		text, err := marshal(b)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(text)
		header.Set("Content-Type", "application/json")
	}
	target := c.at.base + in.path
	if len(in.query) > 0 {
		target += "?" + in.query.Encode()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, in.method, target, body)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	req.Header = header
	if c.token != "" {
		req.Header.Set("X-Rondel-Token", c.token)
	}
	req.Header.Set("User-Agent", "rondel-api")

	if !in.slow {
		timer := time.AfterFunc(c.timeout, func() { cancel(errNoAnswer) })
		defer timer.Stop()
	}
	resp, err := c.http.Do(req)
	if err != nil {
		why := context.Cause(ctx)
		cancel(nil)
		switch {
		case errors.Is(why, errNoAnswer):
			return nil, &UnreachableError{Address: c.at.shown, Err: why}
		case why != nil:
			return nil, fmt.Errorf("%s %s: %w", in.method, c.at.shown, why)
		}
		return nil, &UnreachableError{Address: c.at.shown, Err: err}
	}
	resp.Body = &cancelBody{ReadCloser: resp.Body, cancel: cancel}
	if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusNotModified {
		defer resp.Body.Close()
		return nil, readError(resp)
	}
	return resp, nil
}

// errNoAnswer is the reason of a call that ran into Config.Timeout.
var errNoAnswer = errors.New("it accepts connections but does not answer")

// cancelBody frees the context of a call with its body.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the body.
func (b *cancelBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// read sends a call and decodes a JSON answer into out, which may be nil.
func (c *Client) read(ctx context.Context, in call, out any) (http.Header, error) {
	resp, err := c.do(ctx, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := readAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", c.at.shown, err)
	}
	if out == nil || len(text) == 0 {
		return resp.Header, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("the answer of %s is not what a rondel agent says: %w", c.at.shown, err)
	}
	return resp.Header, nil
}

func readAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("more than %d bytes", maxAnswer)
	}
	return text, err
}

// marshal is json.Marshal but for HTML: values are stored as they are sent.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func readError(resp *http.Response) error {
	e := &Error{StatusCode: resp.StatusCode}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err := json.Unmarshal(text, e); err != nil || e.Message == "" {
		// Something between us and the agent answered, or it is no agent.
		line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		if len(line) > 200 {
			line = line[:200]
		}
		*e = Error{StatusCode: resp.StatusCode, Message: line}
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// cause takes the request line and the address, which the caller has named,
// off a network error.
func cause(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		if op.Timeout() {
			return "timed out"
		}
		if op.Op == "dial" && op.Err != nil {
			err = op.Err
		}
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

func index(h http.Header) uint64 {
	n, _ := strconv.ParseUint(h.Get("X-Rondel-Index"), 10, 64)
	return n
}
