package gossip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rondel-project/rondel/agent/internal/wholefile"
	"github.com/rondel-project/rondel/agent/member"
)

// The file of known peers lets an agent that starts anew find the cluster
// without being told where it is.
const (
	peersFile  = "known-peers.json"
	peersLimit = 256 // addresses taken from a file
	peersDelay = 2 * time.Second
)

// peer is one line of the file.
type peer struct {
	Name string
	ID   member.ID
	Addr netip.AddrPort
	Seen time.Time
}

type peersDoc struct{ Peers []peer }

// loadPeers reads the file. A broken one is ignored: all in it can be learned
// anew.
func (g *Gossip) loadPeers() {
	if g.opts.DataDir == "" {
		return
	}
	path := filepath.Join(g.opts.DataDir, peersFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var doc peersDoc
	if err == nil {
		doc, err = parsePeers(b)
	}
	if err != nil {
		g.log.Warn("known peers are ignored: the file cannot be read", "file", path, "error", err)
		return
	}
	for _, p := range doc.Peers {
		if p.ID != g.opts.Meta.ID && len(g.peers) < peersLimit {
			g.peers[p.Addr] = p
		}
	}
}

func parsePeers(b []byte) (peersDoc, error) {
	var doc peersDoc
	if err := json.Unmarshal(b, &doc); err != nil {
		return peersDoc{}, err
	}
	for i, p := range doc.Peers {
		if !p.Addr.IsValid() || p.Addr.Port() == 0 {
			return peersDoc{}, fmt.Errorf("peer %d has no address", i)
		}
	}
	return doc, nil
}

// peersLoop writes the file when members changed, not more often than every
// two seconds.
func (g *Gossip) peersLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.wakePeers:
		}
		if !sleep(ctx, peersDelay) {
			g.savePeers()
			return
		}
		g.savePeers()
	}
}

func (g *Gossip) savePeers() {
	now := time.Now()
	g.mu.Lock()
	for addr, p := range g.peers {
		if now.Sub(p.Seen) > keepFailed {
			delete(g.peers, addr)
		}
	}
	for _, m := range g.list.byName {
		if m.Name == g.opts.Name {
			continue
		}
		for addr, p := range g.peers {
			if p.ID == m.ID && (addr != m.Gossip() || m.Status == member.Left) {
				delete(g.peers, addr)
			}
		}
		if m.Here() {
			g.peers[m.Gossip()] = peer{m.Name, m.ID, m.Gossip(), now.UTC().Truncate(time.Second)}
		}
	}
	doc := peersDoc{Peers: []peer{}}
	for _, p := range g.peers {
		doc.Peers = append(doc.Peers, p)
	}
	g.mu.Unlock()
	if g.opts.DataDir == "" {
		return
	}
	slices.SortFunc(doc.Peers, func(a, b peer) int { return strings.Compare(a.Name, b.Name) })
	b, err := json.MarshalIndent(doc, "", "  ")
	if err == nil {
		err = wholefile.Write(filepath.Join(g.opts.DataDir, peersFile), append(b, '\n'))
	}
	if err != nil {
		g.log.Warn("known peers are not saved", "error", err)
	}
}
