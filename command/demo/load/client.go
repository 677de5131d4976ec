package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// errUnsent means that no connection could be made: the request has not
// happened, and no address of the shop's answered it with an error.
var errUnsent = errors.New("no connection")

// errFailed means that a request was sent and came to nothing.
var errFailed = errors.New("the request failed")

// refusal is an answer that is not the one wanted.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string {
	line, _, _ := strings.Cut(strings.TrimSpace(r.text), "\n")
	if len(line) > 120 || strings.HasPrefix(line, "<") {
		line = http.StatusText(r.status)
	}
	return fmt.Sprintf("status %d: %s", r.status, line)
}

// reason is an error without what differs from one request to the next.
func reason(err error) string {
	var r *refusal
	if errors.As(err, &r) {
		return r.Error()
	}
	return "the connection broke"
}

// client is one browser.
type client struct {
	name    string
	http    *http.Client
	targets []string
	next    int // of targets
	cookies map[string]string
	ledger  *Ledger
	writes  int // made so far; names the keys

	last cart // as last shown
}

// cart is what the shop answers.
type cart struct {
	Session  string         `json:"session"`
	Items    map[string]int `json:"items"`
	Item     string         `json:"item"`
	Count    int            `json:"count"`
	Owner    string         `json:"owner"`
	Instance string         `json:"instance"`
	Member   string         `json:"member"`
}

// outcome is what became of one operation.
type outcome struct {
	cart   cart
	failed []string // why, for each request that did
	took   time.Duration
	err    error // it did not succeed in time
}

// retryPause keeps a client from asking without pause where nothing answers.
const retryPause = 20 * time.Millisecond

// operate makes a request until it succeeds or ctx ends. Where no connection
// can be made it turns to the next address, as a browser does behind DNS.
func (c *client) operate(ctx context.Context, method, path, key string) outcome {
	var out outcome
	start := time.Now()
	defer func() { out.took = time.Since(start) }()
	refused := 0
	for {
		got, err := c.request(ctx, method, path, key)
		out.took = time.Since(start)
		if err == nil {
			out.cart = got
			return out
		}
		if ctx.Err() != nil {
			out.err = err
			return out
		}
		c.next++
		if errors.Is(err, errUnsent) {
			if refused++; refused%len(c.targets) != 0 {
				continue
			}
		} else {
			out.failed = append(out.failed, reason(err))
		}
		select {
		case <-ctx.Done():
			out.err = err
			return out
		case <-time.After(retryPause):
		}
	}
}

func (c *client) request(ctx context.Context, method, path, key string) (cart, error) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.targets[c.next%len(c.targets)]+path, nil)
	if err != nil {
		return cart{}, err
	}
	req.Header.Set("Accept", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	for name, value := range c.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if sent.Load() {
			return cart{}, fmt.Errorf("%w: %w", errFailed, err)
		}
		return cart{}, fmt.Errorf("%w: %w", errUnsent, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	c.keep(resp)
	if err != nil {
		return cart{}, fmt.Errorf("%w: %w", errFailed, err)
	}
	if resp.StatusCode != http.StatusOK {
		return cart{}, &refusal{status: resp.StatusCode, text: string(text)}
	}
	var got cart
	if err := json.Unmarshal(text, &got); err != nil {
		return cart{}, fmt.Errorf("%w: %w", errFailed, err)
	}
	return got, nil
}

// keep takes over the cookies of an answer.
func (c *client) keep(resp *http.Response) {
	for _, k := range resp.Cookies() {
		if k.MaxAge < 0 {
			delete(c.cookies, k.Name)
			continue
		}
		c.cookies[k.Name] = k.Value
	}
}

// read looks at the cart.
func (c *client) read(ctx context.Context) outcome {
	out := c.operate(ctx, http.MethodGet, "/cart.json", "")
	if out.err == nil {
		c.last = out.cart
		c.ledger.Session(out.cart.Session)
		c.ledger.Read(out.cart.Items)
	}
	return out
}

// write adds one of an item. Repeats of it carry the same key.
func (c *client) write(ctx context.Context, item string) outcome {
	c.writes++
	out := c.operate(ctx, http.MethodPost, "/add?item="+item, fmt.Sprintf("%s-%d", c.name, c.writes))
	if out.err != nil {
		c.ledger.Unacknowledged(item)
		return out
	}
	items := c.last.Items
	c.last = out.cart
	c.last.Items = items
	c.ledger.Session(out.cart.Session)
	c.ledger.Acked(item, out.cart.Count)
	return out
}
