package shop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rondel-project/rondel/api"
)

// itemPrefix begins the name of each counter of the cart. A counter of its own
// for each product lets two requests at once add different things, or the same
// one, without either undoing the other.
const itemPrefix = "item:"

// ErrBusy means that other requests kept changing the cart in between.
var ErrBusy = errors.New("the cart keeps changing, try again")

// Cart is what a session holds.
type Cart struct {
	Session  string         `json:"session"` // a digest of the id: who may see the page need not learn the cookie
	Items    map[string]int `json:"items"`
	Version  uint64         `json:"version"`
	Owner    string         `json:"owner"`
	Replicas []string       `json:"replicas"`
	Instance string         `json:"instance"` // that answered
	Member   string         `json:"member"`   // the machine it is on
}

// Added is the answer to one more of an item.
type Added struct {
	Session  string `json:"session"`
	Item     string `json:"item"`
	Count    int    `json:"count"`
	Version  uint64 `json:"version"`
	Owner    string `json:"owner"`
	Instance string `json:"instance"`
	Member   string `json:"member"`
}

// Digest is a short name of a session that does not tell its id.
func Digest(session string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:6])
}

// cart reads a session. One that was never written to is an empty cart.
func (s *Shop) cart(ctx context.Context, session string) (Cart, string, error) {
	out := Cart{Session: Digest(session), Items: map[string]int{}, Replicas: []string{}, Instance: s.cfg.Name, Member: s.cfg.Member}
	var got *api.Session
	err := s.agents.try(ctx, func(ctx context.Context, c *api.Client) (err error) {
		got, err = c.Sessions().Get(ctx, session)
		return err
	})
	if api.IsNotFound(err) {
		return out, "", nil
	}
	if err != nil {
		return out, "", fmt.Errorf("read the cart: %w", err)
	}
	out.Version, out.Owner = got.Version, got.Owner
	out.Replicas = append(out.Replicas, got.Replicas...)
	for name, value := range got.Attributes {
		if item, ok := strings.CutPrefix(name, itemPrefix); ok {
			if n, err := count(value); err == nil && n > 0 {
				out.Items[item] = n
			}
		}
	}
	return out, got.ETag, nil
}

func count(value json.RawMessage) (int, error) {
	return strconv.Atoi(strings.TrimSpace(string(value)))
}

// add puts one more of an item into the cart.
func (s *Shop) add(ctx context.Context, session, item, key string) (Added, error) {
	var m *api.Mutation
	err := s.agents.try(ctx, func(ctx context.Context, c *api.Client) (err error) {
		m, err = c.Sessions().Incr(ctx, session, itemPrefix+item, 1, keyed(key)...)
		return err
	})
	if err != nil {
		return Added{}, fmt.Errorf("add to the cart: %w", err)
	}
	n, err := strconv.Atoi(m.Value.String())
	if err != nil {
		return Added{}, fmt.Errorf("add to the cart: the agent answered no number: %w", err)
	}
	return Added{Session: Digest(session), Item: item, Count: n, Version: m.Version, Owner: m.Owner, Instance: s.cfg.Name, Member: s.cfg.Member}, nil
}

// remove takes one of an item out. It is conditional on what it has read, since
// a counter may not fall below nothing.
func (s *Shop) remove(ctx context.Context, session, item, key string) error {
	for attempt := range 5 {
		cart, etag, err := s.cart(ctx, session)
		if err != nil {
			return err
		}
		n := cart.Items[item]
		if n == 0 {
			return nil
		}
		var value any // no more of it: the counter goes
		if n > 1 {
			value = n - 1
		}
		opts := append(keyed(fmt.Sprintf("%s-%d", key, attempt)), api.WithIfMatch(etag))
		err = s.patch(ctx, session, map[string]any{itemPrefix + item: value}, opts)
		if !api.HasCode(err, api.CodeVersionMismatch) {
			return err
		}
	}
	return ErrBusy
}

// empty takes everything out.
func (s *Shop) empty(ctx context.Context, session, key string) error {
	all := map[string]any{}
	for _, p := range Products() {
		all[itemPrefix+p.ID] = nil
	}
	err := s.patch(ctx, session, all, keyed(key))
	if api.IsNotFound(err) {
		return nil
	}
	return err
}

func (s *Shop) patch(ctx context.Context, session string, attributes map[string]any, opts []api.Option) error {
	err := s.agents.try(ctx, func(ctx context.Context, c *api.Client) error {
		_, err := c.Sessions().Patch(ctx, session, attributes, opts...)
		return err
	})
	if err != nil {
		return fmt.Errorf("change the cart: %w", err)
	}
	return nil
}

func keyed(key string) []api.Option {
	if key == "" {
		return nil
	}
	return []api.Option{api.WithIdempotencyKey(key)}
}
