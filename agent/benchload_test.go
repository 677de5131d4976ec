package agent

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clients is how many connections a load has.
const clients = 64

// line is one connection of a load client: a request out, a whole answer in.
type line struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialLine(b *testing.B, addr string) *line {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return &line{c, bufio.NewReaderSize(c, 8<<10)}
}

// http sends a request and reads the answer, which must be 200.
func (l *line) http(request []byte) error {
	if _, err := l.conn.Write(request); err != nil {
		return err
	}
	first, err := l.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	ok, status := bytes.HasPrefix(first, []byte("HTTP/1.1 200")), string(first)
	length := 0
	for {
		f, err := l.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(f) == 2 {
			break
		}
		if v, is := bytes.CutPrefix(f, []byte("Content-Length: ")); is {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
	}
	if !ok {
		body := make([]byte, length)
		io.ReadFull(l.in, body)
		return fmt.Errorf("%s%s", status, body)
	}
	_, err = l.in.Discard(length)
	return err
}

// resp sends a Redis request and reads n answers.
func (l *line) resp(request []byte, n int) error {
	if _, err := l.conn.Write(request); err != nil {
		return err
	}
	for range n {
		first, err := l.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		switch first[0] {
		case '$':
			size, err := strconv.Atoi(string(bytes.TrimSpace(first[1:])))
			if err != nil || size < 0 {
				return fmt.Errorf("redis answers %q", first)
			}
			if _, err := l.in.Discard(size + 2); err != nil {
				return err
			}
		case ':':
			if string(first) != ":2\r\n" {
				return fmt.Errorf("WAIT 2 came to %q", first)
			}
		case '+':
		default:
			return fmt.Errorf("redis answers %q", first)
		}
	}
	return nil
}

func command(args ...string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(a), a)
	}
	return out.Bytes()
}

// redisPeers is a Redis and its two replicas.
type redisPeers struct {
	procs []*os.Process
	lines []*line
	sets  [][]byte
	gets  [][]byte
}

func startRedis(b *testing.B) *redisPeers {
	r := &redisPeers{}
	var addrs []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		addrs = append(addrs, l.Addr().String())
		l.Close()
	}
	_, first, _ := net.SplitHostPort(addrs[0])
	for i, a := range addrs {
		_, port, _ := net.SplitHostPort(a)
		args := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.TempDir(),
			"--repl-diskless-sync-delay", "0"}
		if i > 0 {
			args = append(args, "--replicaof", "127.0.0.1", first)
		}
		cmd := exec.Command("redis-server", args...)
		if err := cmd.Start(); err != nil {
			b.Fatalf("redis-server: %v (scripts/setup-bench.sh installs it)", err)
		}
		b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		r.procs = append(r.procs, cmd.Process)
		awaitBench(b, func() error {
			c, err := net.Dial("tcp", a)
			if err == nil {
				c.Close()
			}
			return err
		})
	}
	awaitBench(b, func() error {
		l := dialLine(b, addrs[0])
		l.conn.Write(command("INFO", "replication"))
		l.conn.SetReadDeadline(time.Now().Add(time.Second))
		buf := make([]byte, 4096)
		n, err := l.in.Read(buf)
		if err == nil && strings.Count(string(buf[:n]), "state=online") != 2 {
			err = errors.New("the replicas are not online")
		}
		l.conn.Close()
		return err
	})
	for i := range 1536 {
		key := fmt.Sprintf("session:%020d", i)
		r.sets = append(r.sets, append(command("SET", key, text(1024)), command("WAIT", "2", "1000")...))
		r.gets = append(r.gets, command("GET", key))
	}
	for range clients {
		r.lines = append(r.lines, dialLine(b, addrs[0]))
	}
	for _, s := range r.sets {
		if err := r.lines[0].resp(s, 2); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

func (r *redisPeers) pids() (out []int) {
	for _, p := range r.procs {
		out = append(out, p.Pid)
	}
	return out
}

func (r *redisPeers) set(b *testing.B, d time.Duration) []time.Duration {
	return r.run(b, d, r.sets, 2)
}
func (r *redisPeers) get(b *testing.B, d time.Duration) []time.Duration {
	return r.run(b, d, r.gets, 1)
}

func (r *redisPeers) run(b *testing.B, d time.Duration, requests [][]byte, answers int) []time.Duration {
	var workers []func() error
	for i, l := range r.lines {
		at := i * 24
		workers = append(workers, func() error {
			at = (at + 7) % len(requests)
			return l.resp(requests[at], answers)
		})
	}
	lats, err := drive(d, workers)
	if err != nil {
		b.Fatal("redis: ", err)
	}
	return lats
}

func awaitBench(b *testing.B, try func() error) {
	b.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if err = try(); err == nil {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	b.Fatal(err)
}
