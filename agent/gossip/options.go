package gossip

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/rondel-project/rondel/agent/member"
)

// Options say how an agent takes part in gossip.
type Options struct {
	Name    string
	Meta    member.Meta // ID and Boot are required; what changes later goes through UpdateMeta
	Profile Profile

	Bind      netip.AddrPort // where to listen; port 0 picks one
	Advertise netip.Addr     // told to others; may be unset when Bind is not a wildcard

	// Transport replaces the sockets, for tests. It must know its own address.
	Transport memberlist.Transport

	// Keys are base64 texts of 16, 24 or 32 bytes. The first one encrypts, all
	// of them decrypt; none: no encryption.
	Keys []string

	DataDir string // where known peers are kept; empty: nowhere
	Log     hclog.Logger

	// OnEvent is told of changes of members, OnRecord of other members'
	// records (value nil: gone). Both are called from one goroutine of Run,
	// without locks, and may block: what happens meanwhile is coalesced.
	OnEvent  func(Event)
	OnRecord func(id member.ID, key string, value []byte)

	// Fetch returns what Entry of the given member's agent returns. Nil: the
	// gossip port is asked.
	Fetch func(ctx context.Context, m Member) ([]byte, error)

	// Resolver looks up names to join; nil: the system's.
	Resolver Resolver
}

// Resolver finds the addresses of a name. It may block until ctx ends.
// *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// maxNameLen bounds names so that they fit into every message.
const maxNameLen = 63

func (o *Options) validate() error {
	var errs []error
	if err := checkName(o.Name); err != nil {
		errs = append(errs, err)
	}
	if _, err := member.ParseID(string(o.Meta.ID)); err != nil {
		errs = append(errs, fmt.Errorf("member id: %w", err))
	}
	if o.Meta.Boot.IsZero() {
		errs = append(errs, errors.New("boot id is missing"))
	}
	if o.Transport == nil {
		switch {
		case !o.Bind.IsValid():
			errs = append(errs, errors.New("bind address is missing"))
		case o.Bind.Addr().IsUnspecified() && !o.Advertise.IsValid():
			errs = append(errs, fmt.Errorf("bind address %s is a wildcard: set the address to advertise", o.Bind.Addr()))
		}
	}
	if o.Advertise.IsValid() && o.Advertise.IsUnspecified() {
		errs = append(errs, fmt.Errorf("advertise address %s is a wildcard: nobody could reach it", o.Advertise))
	}
	if _, err := o.Profile.timings(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkName accepts what can stand in a URL, a file name and a log line.
func checkName(name string) error {
	if name == "" || len(name) > maxNameLen {
		return fmt.Errorf("node name %q: must have 1 to %d characters", name, maxNameLen)
	}
	for _, c := range name {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
		if !ok {
			return fmt.Errorf("node name %q: only letters, digits, '-', '_' and '.' are allowed", name)
		}
	}
	return nil
}

// ParseKeys decodes encryption keys. The error never shows a key.
func ParseKeys(texts []string) ([][]byte, error) {
	var keys [][]byte
	for i, text := range texts {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("gossip key %d of %d is not base64: make one with 'rondel keygen'", i+1, len(texts))
		}
		switch len(key) {
		case 16, 24, 32:
		default:
			return nil, fmt.Errorf("gossip key %d of %d has %d bytes: must have 16, 24 or 32; make one with 'rondel keygen'", i+1, len(texts), len(key))
		}
		keys = append(keys, key)
	}
	return keys, nil
}
