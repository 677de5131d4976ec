package proxy

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/proxyproto"
)

// private are the connections to instances that are told by a PROXY protocol
// header whose they are. Each belongs to one client connection, whose address
// and port it names: it carries that one's requests alone and ends with it.
type private struct {
	mu    sync.Mutex // guards the rest
	wires map[*backend]*wires
	left  bool // the client's connection has ended
}

// wiresTo returns how the client's requests get to an instance.
func (c *conn) wiresTo(inst *instance) *wires {
	if inst.key.sendProxy == "" {
		return &inst.wires
	}
	return c.peer.wiresTo(inst.backend)
}

func (p *peer) wiresTo(b *backend) *wires {
	o := &p.private
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.wires[b]
	if w == nil {
		own := b.newWires(p)
		w = &own
		if o.wires == nil {
			o.wires = map[*backend]*wires{}
		}
		o.wires[b] = w
		if o.left {
			w.close()
		}
	}
	return w
}

// leave ends what belongs to a client connection, once that has ended itself.
func (p *peer) leave() {
	p.seat.leave()
	o := &p.private
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left = true
	for _, w := range o.wires {
		w.close()
	}
}

// reach makes a TCP connection to the instance, which begins with the header
// that it wants: ahead of TLS, where it speaks that. Without a client it is this
// proxy that connects. It BLOCKS.
func (b *backend) reach(client *peer, within time.Duration) (net.Conn, error) {
	nc, err := net.DialTimeout("tcp", b.key.addr, within)
	if err != nil || b.key.sendProxy == "" {
		return nc, err
	}
	version := proxyproto.V1
	if b.key.sendProxy == "v2" {
		version = proxyproto.V2
	}
	h := proxyproto.Header{Local: true}
	if client != nil {
		h = proxyproto.Header{Source: client.addr, Destination: client.local}
	}
	nc.SetWriteDeadline(time.Now().Add(within)) // fails on a closed connection, as the write will
	if _, err := nc.Write(version.Append(nil, h)); err != nil {
		nc.Close()
		return nil, fmt.Errorf("send the PROXY protocol header: %w", err)
	}
	nc.SetWriteDeadline(time.Time{})
	return nc, nil
}
