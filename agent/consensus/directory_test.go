package consensus

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/member"
)

var errDialled = errors.New("dialled")

// dialled is a stream layer that remembers whom it was to connect to.
type dialled struct {
	layer
	id   member.ID
	addr string
}

func (d *dialled) DialServer(id member.ID, addr string, _ time.Duration) (net.Conn, error) {
	d.id, d.addr = id, addr
	return nil, errDialled
}

func TestNode_dialsAServerAndNobodyElseAtItsAddress(t *testing.T) {
	t.Parallel()
	stream := &dialled{}
	here := map[member.ID]string{idOf(0): "a:1", idOf(1): "b:2"}
	n, err := Open(Config{ID: idOf(0), Stream: stream, Address: func(id member.ID) string { return here[id] }})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	names := directory{n}
	if addr, err := names.ServerAddr(raft.ServerID(idOf(0))); err != nil || addr != "a:1" {
		t.Errorf("itself: %s, %v", addr, err)
	}
	if addr, err := names.ServerAddr(raft.ServerID(idOf(2))); err == nil {
		t.Errorf("an unknown one before Raft runs: %s, want the address that Raft has", addr)
	}
	to, err := names.ServerAddr(raft.ServerID(idOf(1)))
	if err != nil {
		t.Fatal(err)
	}
	dial := advertised{stream, "a:1"}
	if _, err := dial.Dial(to, time.Second); !errors.Is(err, errDialled) || stream.id != idOf(1) || stream.addr != "b:2" {
		t.Errorf("dialled %s at %s: %v", stream.id, stream.addr, err)
	}
	if _, err := dial.Dial(raft.ServerAddress(idOf(2))+"@", time.Second); err == nil || errors.Is(err, errDialled) {
		t.Errorf("one that is in no configuration: %v", err)
	}
}
