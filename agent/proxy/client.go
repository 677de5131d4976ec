package proxy

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/netip"

	"github.com/rondel-project/rondel/agent/http1"
)

// peer is the other end of a client connection: who connected or, where that
// is a balancer with a PROXY protocol header, who connected to it.
type peer struct {
	addr  netip.AddrPort
	local netip.AddrPort // what it connected to
	text  []byte         // the address alone
	node  []byte         // the quoted address and port, as Forwarded has it
	https bool

	protocol string // where the client does not speak HTTP/1 itself

	private private
	seat    seat
}

func newPeer(nc net.Conn) *peer {
	p := peerAt(ends(nc))
	_, p.https = nc.(*tls.Conn)
	return p
}

func peerAt(addr, local netip.AddrPort) *peer {
	p := &peer{}
	if !addr.IsValid() { // a Unix socket, say
		p.text, p.node = []byte("unknown"), []byte("unknown")
		return p
	}
	p.addr, p.local = bare(addr), bare(local)
	p.text = p.addr.Addr().AppendTo(nil)
	p.node = append(p.addr.AppendTo([]byte{'"'}), '"')
	return p
}

// bare writes a v4 address as one, and drops the zone, which means something
// on this machine only.
func bare(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// origin is who asks and how, with what trusted proxies say taken into account.
type origin struct {
	trusted bool
	client  []byte // address of the client, as text
	https   bool
}

// origin finds the client: the peer, or behind trusted proxies the rightmost
// address that is not one of theirs.
func (p *peer) origin(q *http1.Request, trusted []netip.Prefix) origin {
	o := origin{client: p.text, https: p.https}
	if len(trusted) == 0 || !p.addr.IsValid() || !within(p.addr.Addr(), trusted) {
		return o
	}
	o.trusted = true
	fields := q.Fields.Fields
	searching, proto := true, true
	for i := len(fields) - 1; i >= 0; i-- {
		f := &fields[i]
		switch f.Known {
		case http1.XForwardedProto:
			if proto { // the last word is the trusted peer's own
				last := f.Value[bytes.LastIndexByte(f.Value, ',')+1:]
				o.https, proto = http1.EqualFold(bytes.Trim(last, " \t"), "https"), false
			}
		case http1.XForwardedFor:
			for list := f.Value; searching && len(list) > 0; {
				comma := bytes.LastIndexByte(list, ',')
				one := bytes.Trim(list[comma+1:], " \t")
				list = list[:max(comma, 0)]
				a, err := parseHop(one)
				if err != nil { // nobody to believe beyond this one
					searching = false
					break
				}
				o.client = one
				if !a.Is4() || len(one) > len("255.255.255.255") || bytes.IndexByte(one, ':') >= 0 {
					o.client = a.AppendTo(nil) // one and the same form of each address
				}
				searching = within(a, trusted)
			}
		}
	}
	return o
}

// parseHop reads an address as proxies write it: bare, or with a port, as some do.
func parseHop(text []byte) (netip.Addr, error) {
	if n := len(text); n > 2 && text[0] == '[' && text[n-1] == ']' {
		text = text[1 : n-1]
	}
	a, err := netip.ParseAddr(string(text))
	if err != nil {
		var ap netip.AddrPort
		ap, err = netip.ParseAddrPort(string(text))
		a = ap.Addr()
	}
	return a.Unmap().WithZone(""), err
}

func within(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// appendForwarded adds the forwarded headers: afresh, or after those that a
// trusted peer sent.
func (p *peer) appendForwarded(dst []byte, q *http1.Request, o *origin) []byte {
	proto := "http"
	if o.https {
		proto = "https"
	}
	var old [3]bool // For, Host and Forwarded were there
	dst = append(dst, "X-Forwarded-For: "...)
	if o.trusted {
		dst, old[0] = appendJoined(dst, q, http1.XForwardedFor)
	}
	if old[0] {
		dst = append(dst, ", "...)
	}
	dst = append(dst, p.text...)
	dst = append(dst, "\r\nX-Forwarded-Proto: "...)
	dst = append(dst, proto...)
	dst = append(dst, "\r\nX-Forwarded-Host: "...)
	if o.trusted {
		dst, old[1] = appendJoined(dst, q, http1.XForwardedHost)
	}
	if !old[1] {
		dst = append(dst, q.Host...)
	}
	dst = append(dst, "\r\nForwarded: "...)
	if o.trusted {
		dst, old[2] = appendJoined(dst, q, http1.Forwarded)
	}
	if old[2] {
		dst = append(dst, ", "...)
	}
	dst = append(dst, "for="...)
	dst = append(dst, p.node...)
	if len(q.Host) > 0 {
		dst = append(dst, `;host="`...)
		dst = append(dst, q.Host...)
		dst = append(dst, '"')
	}
	dst = append(dst, ";proto="...)
	dst = append(dst, proto...)
	return append(dst, "\r\n"...)
}

// appendJoined adds the values of all fields of one name as one list.
func appendJoined(dst []byte, q *http1.Request, k http1.Known) (_ []byte, any bool) {
	for i := range q.Fields.Fields {
		f := &q.Fields.Fields[i]
		if f.Known != k || len(f.Value) == 0 {
			continue
		}
		if any {
			dst = append(dst, ", "...)
		}
		dst, any = append(dst, f.Value...), true
	}
	return dst, any
}
