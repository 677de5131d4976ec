//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 wants it
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rondel-project/rondel/scripts/bench/peers"
)

// socketsCase is the case of WebSockets on which nothing moves.
const socketsCase = "1,000 idle WebSockets"

const sockets = 1000

// socketRow is what they cost a peer in one round.
type socketRow struct {
	each       float64 // KiB of resident memory
	idle, none float64 // ms of processor time in a second, with and without them
}

// idleSockets opens 1,000 WebSockets through each peer, all at one time, since nothing
// that one does disturbs another while nothing moves.
func (s *settings) idleSockets(ctx context.Context, res *results) error {
	if !s.only.MatchString(socketsCase) {
		return nil
	}
	for round := range s.rounds {
		if err := s.socketRound(ctx, res, round+1); err != nil {
			return fmt.Errorf("%s: %w", socketsCase, err)
		}
	}
	return nil
}

func (s *settings) socketRound(ctx context.Context, res *results, round int) error {
	f, err := s.newField(true, res)
	if err != nil {
		return err
	}
	defer f.r.Close()
	at, err := peers.Ports(3)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	inst, err := f.r.Start(peers.Program{Name: "sockets", Args: append([]string{self, socketsRole}, at...), CPU: -1})
	if err != nil {
		return err
	}
	if err := inst.AwaitPort(ctx, at[2]); err != nil {
		return err
	}
	var in []*stand
	for _, p := range s.everyone() {
		if p.Name == spliced || !s.peers.MatchString(p.Name) && p.Name != base {
			continue
		}
		st, err := f.start(ctx, p, peers.Setting{Instances: at})
		if errors.Is(err, peers.ErrMissing) {
			res.missing(p.Name, err)
			continue
		}
		if err != nil {
			return err
		}
		in = append(in, st)
		if err := one(st.addr); err != nil { // what comes once is not the connections'
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	none, err := f.rest(ctx, in)
	if err != nil {
		return err
	}
	before := make([]int, len(in))
	for i, st := range in {
		if before[i], err = peers.RSS(peers.PIDs(st.procs)); err != nil {
			return err
		}
		conns, err := open(st.addr, sockets)
		defer func() {
			for _, c := range conns {
				c.Close()
			}
		}()
		if err != nil {
			return fmt.Errorf("%s: %w", st.peer.Name, err)
		}
	}
	idle, err := f.rest(ctx, in)
	if err != nil {
		return err
	}
	for i, st := range in {
		after, err := peers.RSS(peers.PIDs(st.procs))
		if err != nil {
			return err
		}
		r := socketRow{each: float64(after-before[i]) / 1024 / sockets, idle: idle[i], none: none[i]}
		res.addSockets(st.peer.Name, r)
		fmt.Fprintf(os.Stderr, "%s, round %d: %-16s %.1f KiB each, idle %.1f ms/s, without them %.1f ms/s\n", socketsCase, round, st.peer.Name, r.each, r.idle, r.none)
	}
	return nil
}

// rest lets nothing happen for a while and tells what each peer has spent in a second.
func (f *field) rest(ctx context.Context, in []*stand) ([]float64, error) {
	select {
	case <-time.After(time.Second): // what began before ends
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began, out := time.Now(), make([]float64, len(in))
	spent := func(sign float64) error {
		for i, st := range in {
			d, err := peers.CPU(peers.PIDs(st.procs))
			if err != nil {
				return err
			}
			out[i] += sign * float64(d) / 1e6
		}
		return nil
	}
	if err := spent(-1); err != nil {
		return nil, err
	}
	select {
	case <-time.After(f.each):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := spent(1); err != nil {
		return nil, err
	}
	for i := range out {
		out[i] /= time.Since(began).Seconds()
	}
	return out, nil
}

func one(addr string) error {
	conns, err := open(addr, 1)
	for _, c := range conns {
		c.Close()
	}
	return err
}

// open opens WebSockets and passes a message over each, there and back.
func open(addr string, n int) (conns []net.Conn, err error) {
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return conns, err
		}
		conns = append(conns, c)
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return conns, err
		}
		const key = "dGhlIHNhbXBsZSBub25jZQ=="
		if _, err := io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: shop.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+key+"\r\n\r\n"); err != nil {
			return conns, err
		}
		in := bufio.NewReaderSize(c, 1024)
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return conns, err
		}
		r.Body.Close()
		if r.StatusCode != http.StatusSwitchingProtocols || r.Header.Get("Sec-WebSocket-Accept") != accept(key) {
			return conns, fmt.Errorf("no WebSocket: %s", r.Status)
		}
		if _, err := c.Write(message); err != nil {
			return conns, err
		}
		back := make([]byte, len(message))
		if _, err := io.ReadFull(in, back); err != nil {
			return conns, err
		}
		if string(back) != string(message) {
			return conns, fmt.Errorf("%x came back", back)
		}
	}
	return conns, nil
}

// message is a text frame, masked with zeros: it may go either way.
var message = []byte{0x81, 0x84, 0, 0, 0, 0, 'p', 'i', 'n', 'g'}

func accept(key string) string {
	h := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // likewise
	return base64.StdEncoding.EncodeToString(h[:])
}

// serveSockets is the role of instances that take WebSockets and send back what comes.
func serveSockets(addrs []string) error {
	if len(addrs) == 0 {
		return errors.New("want addresses")
	}
	errs := make(chan error, len(addrs))
	for _, addr := range addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					errs <- err
					return
				}
				go echo(c)
			}
		}()
	}
	return <-errs
}

func echo(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 2048)
	q, err := http.ReadRequest(in)
	if err != nil || !strings.EqualFold(q.Header.Get("Upgrade"), "websocket") {
		return
	}
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "+accept(q.Header.Get("Sec-WebSocket-Key"))+"\r\n\r\n"); err != nil {
		return
	}
	buf := make([]byte, 512)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}
