package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// A greeting is what each end says first: the dialling end its lane and whom it
// expects, the other one its verdict.
//
//	magic   4  "RNDL"
//	version 1
//	tag     1  lane from the dialling end, verdict from the other
//	length  2  of the body, big endian as all numbers here
//	body: cluster 16, id 16, boot 16, wall 8, wanted id 16, wanted boot 16,
//	      length of name 1, name; bytes after that belong to later versions
const (
	magic        = "RNDL"
	version      = 1
	headSize     = 8
	bodySize     = 16 + 16 + 16 + 8 + 16 + 16 + 1
	maxBodySize  = 4096
	verdictOK    = 0
	verdictShift = 1 // a verdict other than OK is a Reason plus this
)

// errBadGreeting means that the first bytes of a connection are not rondel's.
var errBadGreeting = errors.New("not a greeting")

// want is whom the dialling end expects; zero fields expect nothing.
type want struct {
	id   member.ID
	boot member.Boot
}

type greeting struct {
	version byte
	tag     byte
	hello   Hello
	want    want
}

func (g greeting) appendTo(b []byte) []byte {
	name := g.hello.Name
	if len(name) > 255 {
		name = name[:255]
	}
	b = append(b, magic...)
	b = append(b, g.version, g.tag)
	b = binary.BigEndian.AppendUint16(b, uint16(bodySize+len(name)))
	b = append(b, g.hello.Cluster[:]...)
	id := g.hello.ID.Bytes()
	b = append(b, id[:]...)
	b = append(b, g.hello.Boot[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(g.hello.Wall.UnixNano()))
	id = g.want.id.Bytes()
	b = append(b, id[:]...)
	b = append(b, g.want.boot[:]...)
	b = append(b, byte(len(name)))
	return append(b, name...)
}

// parseHead returns what the first headSize bytes say, and how many follow.
func parseHead(b []byte) (g greeting, body int, err error) {
	if len(b) < headSize || string(b[:4]) != magic {
		return g, 0, errBadGreeting
	}
	g.version, g.tag = b[4], b[5]
	body = int(binary.BigEndian.Uint16(b[6:]))
	if body < bodySize || body > maxBodySize {
		return g, 0, fmt.Errorf("body of %d bytes: %w", body, errBadGreeting)
	}
	return g, body, nil
}

func (g *greeting) parseBody(b []byte) error {
	if len(b) < bodySize {
		return fmt.Errorf("short body: %w", errBadGreeting)
	}
	take16 := func() (v [16]byte) { b = b[copy(v[:], b):]; return v }
	g.hello.Cluster = take16()
	g.hello.ID = idOf(take16())
	g.hello.Boot = take16()
	g.hello.Wall = time.Unix(0, int64(binary.BigEndian.Uint64(b)))
	b = b[8:]
	g.want.id = idOf(take16())
	g.want.boot = take16()
	n := int(b[0])
	if len(b) < 1+n {
		return fmt.Errorf("name cut short: %w", errBadGreeting)
	}
	g.hello.Name = string(b[1 : 1+n])
	return nil
}

func idOf(b [16]byte) member.ID {
	if b == [16]byte{} {
		return ""
	}
	return member.IDFromBytes(b)
}

// readGreeting reads not one byte more than the greeting, since the rest of the
// connection may be for somebody else.
func readGreeting(r io.Reader) (greeting, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return greeting{}, err
	}
	g, n, err := parseHead(head[:])
	if err != nil {
		return g, err
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return g, err
	}
	return g, g.parseBody(body)
}

// judge decides whether the agent self talks to who sent g.
func judge(self Hello, g greeting) (Reason, bool) {
	if g.version != version {
		return WrongVersion, false
	}
	if !sameCluster(Lane(g.tag), self.Cluster, g.hello.Cluster) {
		return WrongCluster, false
	}
	if g.want.id != "" && g.want.id != self.ID {
		return WrongMember, false
	}
	if !g.want.boot.IsZero() && g.want.boot != self.Boot {
		return WrongBoot, false
	}
	return 0, true
}

// sameCluster: an agent that does not know its cluster yet may ask and be
// asked, and must be able to get by raft the entry that names it; session
// traffic waits until it knows.
func sameCluster(lane Lane, a, b [16]byte) bool {
	if a == b {
		return true
	}
	unknown := a == [16]byte{} || b == [16]byte{}
	return unknown && (lane == Call || lane == Raft)
}

// greet opens a connection as the dialling end and returns the other's hello.
func greet(conn net.Conn, self Hello, lane Lane, w want, timeout time.Duration) (Hello, error) {
	sent := time.Now()
	if err := conn.SetDeadline(sent.Add(timeout)); err != nil {
		return Hello{}, fmt.Errorf("greet: %w", err)
	}
	self.Wall = sent
	g := greeting{version: version, tag: byte(lane), hello: self, want: w}
	if _, err := conn.Write(g.appendTo(nil)); err != nil {
		return Hello{}, fmt.Errorf("greet: %w", err)
	}
	answer, err := readGreeting(conn)
	if err != nil {
		return Hello{}, fmt.Errorf("greet: %w", err)
	}
	if answer.tag != verdictOK {
		return Hello{}, &RefusedError{Reason: Reason(answer.tag - verdictShift)}
	}
	if w.id != "" && answer.hello.ID != w.id {
		return Hello{}, &RefusedError{Reason: WrongMember}
	}
	if !w.boot.IsZero() && answer.hello.Boot != w.boot {
		return Hello{}, &RefusedError{Reason: WrongBoot}
	}
	if !sameCluster(lane, self.Cluster, answer.hello.Cluster) {
		return Hello{}, &RefusedError{Reason: WrongCluster}
	}
	half := time.Since(sent) / 2
	answer.hello.Offset = answer.hello.Wall.Sub(sent.Add(half))
	return answer.hello, conn.SetDeadline(time.Time{})
}

// welcome is greet's other side. It returns a RefusedError after telling the
// dialling end why.
func welcome(conn net.Conn, self Hello, timeout time.Duration) (Lane, Hello, error) {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, Hello{}, err
	}
	g, err := readGreeting(conn)
	if err != nil {
		return 0, Hello{}, err
	}
	lane := Lane(g.tag)
	if g.version == version && (lane < Raft || lane > Call) {
		return 0, Hello{}, fmt.Errorf("lane %d: %w", lane, errBadGreeting)
	}
	now := time.Now()
	g.hello.Offset = g.hello.Wall.Sub(now)
	self.Wall = now
	reason, ok := judge(self, g)
	answer := greeting{version: version, tag: verdictOK, hello: self}
	if !ok {
		answer.tag = byte(reason) + verdictShift
	}
	if _, err := conn.Write(answer.appendTo(nil)); err != nil {
		return 0, Hello{}, err
	}
	if !ok {
		return lane, g.hello, &RefusedError{Reason: reason}
	}
	return lane, g.hello, conn.SetDeadline(time.Time{})
}
