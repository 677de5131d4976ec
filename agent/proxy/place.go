package proxy

import (
	"slices"
	"strings"

	"github.com/rondel-project/rondel/agent/member"
)

// DefaultRedirectTo is where a route sends its clients that says nothing else.
const DefaultRedirectTo = "http://{address}:{port}"

// Place is where a member's proxy is reached.
type Place struct {
	Name    string // of the member
	Address string // an IP address, IPv6 in brackets
	Port    string // of its proxy; "" if it has none
}

// base returns the address of a member's proxy as a route's template has it, or
// "" where there is none.
func (l *Place) base(template string) string {
	if template == "" {
		template = DefaultRedirectTo
	}
	if l.Port == "" && strings.Contains(template, "{port}") {
		return ""
	}
	return strings.NewReplacer("{member}", strings.ToLower(l.Name), "{address}", l.Address, "{port}", l.Port).Replace(template)
}

// authority returns the host, and the port if it is not the scheme's own, of a
// base address, as a Host field has it.
func authority(base string) string {
	scheme, host, _ := strings.Cut(base, "://")
	usual := ":80"
	if scheme == "https" {
		usual = ":443"
	}
	return strings.ToLower(strings.TrimSuffix(host, usual))
}

// SetPlaces tells where members' proxies are reached, and which member this one
// belongs to.
func (p *Proxy) SetPlaces(self member.ID, places map[member.ID]Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.self, p.places = self, places
	p.rebuildLocked()
}

// SetTokenKeys sets the secrets, of 32 bytes each, that carry sessions from one
// address to another; the first is used, the others are known still.
func (p *Proxy) SetTokenKeys(secrets [][]byte) error {
	keys, err := newTokenKeys(secrets)
	if err != nil {
		return err
	}
	p.tokens.Store(&keys)
	return nil
}

// place works out where routes send their clients, and makes the own address one
// by which those routes are reached.
func (s *snapshot) place(self member.ID, places map[member.ID]Place) {
	if len(places) == 0 {
		return
	}
	own := map[string][]*route{}
	for _, rt := range s.routes() {
		if !rt.Redirect {
			continue
		}
		rt.bases = make(map[member.ID]string, len(places))
		for id, l := range places {
			if base := l.base(rt.RedirectTo); base != "" {
				rt.bases[id] = base
			}
		}
		rt.self = self
		if base := rt.bases[self]; base != "" {
			rt.own = []byte(authority(base))
			name := string(hostname(rt.own))
			own[name] = append(own[name], rt)
		}
	}
	for name, list := range own {
		// Longest path first, as everywhere; of equals those that send clients here.
		list = append(list, s.exact[name]...)
		for i := range s.suffix {
			if strings.HasSuffix(name, s.suffix[i].suffix) {
				list = append(list, s.suffix[i].routes...)
			}
		}
		list = append(list, s.any...)
		slices.SortStableFunc(list, func(a, b *route) int { return len(b.Path) - len(a.Path) })
		s.exact[name] = list
	}
}

// routes returns all routes.
func (s *snapshot) routes() []*route {
	list := slices.Clone(s.any)
	for _, l := range s.exact {
		list = append(list, l...)
	}
	for i := range s.suffix {
		list = append(list, s.suffix[i].routes...)
	}
	return list
}

// here reports whether a Host field names this member's own address.
func (rt *route) here(host []byte) bool {
	if len(rt.own) == 0 {
		return false
	}
	if len(host) > len(rt.own) {
		rest := string(host[len(rt.own):])
		if rest != ":80" && rest != ":443" {
			return false
		}
		host = host[:len(rt.own)]
	}
	return len(host) == len(rt.own) && equalFold(host, rt.own)
}
