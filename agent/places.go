package agent

import (
	"crypto/hkdf"
	"crypto/sha256"
	"net/netip"
	"slices"
	"strconv"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/proxy"
	"github.com/rondel-project/rondel/agent/ring"
)

// places tells where the proxies of members are reached that are there.
func (a *Agent) places() map[member.ID]proxy.Place {
	out := map[member.ID]proxy.Place{}
	for _, m := range a.roster.members() {
		if !m.Here() {
			continue
		}
		p := proxy.Place{Name: m.Name, Address: bracketed(m.Addr)}
		if m.ProxyPort != 0 {
			p.Port = strconv.Itoa(int(m.ProxyPort))
		}
		out[m.ID] = p
	}
	return out
}

// bracketed writes an address as it stands in a URL.
func bracketed(addr netip.Addr) string {
	if addr = addr.Unmap(); addr.Is6() {
		return "[" + addr.String() + "]"
	}
	return addr.String()
}

// feedTokenKeys tells the proxy the keys of the tokens with which a session goes
// from one address to another, the newest first. The caller holds a.feed.mu.
func (a *Agent) feedTokenKeys(keys []ring.Key) {
	if slices.Equal(keys, a.feed.sealed) {
		return
	}
	var secrets [][]byte
	for _, k := range slices.Backward(keys) {
		secret, err := hkdf.Key(sha256.New, k.Secret[:], nil, "rondel redirect token", 32)
		if err != nil {
			a.log.Error("key of redirect tokens cannot be made", "error", err)
			return
		}
		secrets = append(secrets, secret)
	}
	if err := a.doors.proxy.SetTokenKeys(secrets); err != nil {
		a.log.Error("key of redirect tokens refused", "error", err)
		return
	}
	a.feed.sealed = slices.Clone(keys)
}
