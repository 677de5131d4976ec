package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondel-project/rondel/agent/accesslog"
	"github.com/rondel-project/rondel/agent/http1"
)

const (
	wsHandshake  = "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	switchedHead = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
)

// D-17: tunnels count as load.
func TestTunnel_countsAsLoad(t *testing.T) {
	t.Parallel()
	eachWay(t, countsAsLoad)
}

func countsAsLoad(t *testing.T, loops int) {
	var list []Instance
	for n := range 3 {
		list = append(list, instanceOf(startApp(t, fmt.Sprint("a", n), switching), "m1"))
	}
	cfg := DefaultConfig()
	cfg.Routes = []Route{DefaultRoute("shop")}
	cfg.Routes[0].Balance = LeastLoad
	r := startRig(t, setup{cfg: cfg, loops: loops, apps: list})
	for range 30 {
		_, br := r.send(t, wsHandshake)
		if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(err)
		}
	}
	for _, c := range r.Counters() {
		if c.InFlight != 10 {
			t.Errorf("%s has %d", c.ID, c.InFlight)
		}
	}
}

// A tunnel takes one of the requests that its instance may have at a time, until
// it ends.
func TestTunnel_countsForTheLimit(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, loops int) {
		in := instanceOf(startApp(t, "a1", switching), "m1")
		in.MaxConnections = 1
		r := startRig(t, setup{loops: loops, apps: []Instance{in}})
		first, br := r.send(t, wsHandshake)
		if head := rawHead(t, br); head[9:12] != "101" {
			t.Fatal(head)
		}
		_, next := r.send(t, wsHandshake)
		eventually(t, "the next one waits", func() bool { return r.waits() == 1 })
		if n := r.Totals().InFlight; n != 1 {
			t.Errorf("%d in flight", n)
		}
		first.Close()
		if head := rawHead(t, next); head[9:12] != "101" {
			t.Errorf("then %q", head)
		}
	})
}

// waits is how many wait for an instance to have room.
func (r *rig) waits() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.groups {
		n += int(g.waiting.Load())
	}
	return n
}

// A tunnel outlives its instance's registration, and counts until it ends.
func TestTunnel_ofAnInstanceThatIsGone(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, loops int) {
		r, _ := oneIn(t, loops, switching)
		nc, br := r.send(t, wsHandshake)
		rawHead(t, br)
		r.SetInstances(nil)
		io.WriteString(nc, " ping")
		got := make([]byte, 10)
		if _, err := io.ReadFull(br, got); err != nil || string(got) != "hello ping" {
			t.Errorf("%q %v", got, err)
		}
		if n := r.Totals().InFlight; n != 1 {
			t.Errorf("%d in flight", n)
		}
		nc.Close()
		r.idle(t)
	})
}

// pipes is an app whose tunnels the test gets.
func pipes(t testing.TB) (a *app, next func() net.Conn) {
	t.Helper()
	given, over := make(chan net.Conn), make(chan struct{})
	a = startApp(t, "a1", func(nc net.Conn) {
		br := bufio.NewReader(nc)
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		nc.SetDeadline(time.Now().Add(60 * time.Second))
		io.WriteString(nc, switchedHead)
		select {
		case given <- &resumed{Conn: nc, ahead: ahead(br)}:
			<-over
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) })
	return a, func() net.Conn { return <-given }
}

func ahead(br *bufio.Reader) string {
	b, _ := br.Peek(br.Buffered()) // as many as there are
	return string(b)
}

// How a tunnel ended is told to the other side, and to the log.
func TestTunnel_ends(t *testing.T) {
	t.Parallel()
	abrupt := func(nc net.Conn) {
		if r, ok := nc.(*resumed); ok {
			nc = r.Conn
		}
		nc.(*net.TCPConn).SetLinger(0)
		nc.Close()
	}
	for name, c := range map[string]struct {
		end  func(client, app net.Conn) (waits net.Conn)
		want string
	}{
		"the client closes": {func(client, app net.Conn) net.Conn { client.Close(); return app }, "client"},
		"the app closes":    {func(client, app net.Conn) net.Conn { app.Close(); return client }, "instance"},
		"the client resets": {func(client, app net.Conn) net.Conn { abrupt(client); return app }, "client"},
		"the app resets":    {func(client, app net.Conn) net.Conn { abrupt(app); return client }, "instance"},
		"the client ends its half, the app resets": {func(client, app net.Conn) net.Conn {
			client.(*net.TCPConn).CloseWrite()
			io.ReadAll(app)
			abrupt(app)
			return client
		}, "client"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWay(t, func(t *testing.T, loops int) {
				a, next := pipes(t)
				r, line := loggedIn(t, loops, accesslog.Config{}, DefaultConfig(), instanceOf(a, "m1"))
				client, br := r.send(t, wsHandshake+"early")
				head := rawHead(t, br)
				app := next()
				io.WriteString(app, "hello")
				io.ReadFull(app, make([]byte, 5))
				io.ReadFull(br, make([]byte, 5))
				waits := c.end(client, app)
				if b, _ := io.ReadAll(waits); len(b) != 0 { // an error is the end too
					t.Errorf("then came %q", b)
				}
				waits.Close()
				l := line()
				sent := len(wsHandshake) + len("early")
				if l.End != c.want || l.Status != 101 || l.In != int64(sent) || l.Out != int64(len(head)+5) {
					t.Errorf("in %d, out %d, logged %+v", sent, len(head)+5, l)
				}
				r.idle(t)
				eventually(t, "the client's seat is free", func() bool { return r.Connections().Open == 0 })
			})
		})
	}
}

// A side that takes nothing for as long as a piece may take ends the tunnel.
func TestTunnel_takesNothing(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"client", "instance"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			eachWay(t, func(t *testing.T, loops int) {
				a, next := pipes(t)
				cfg := DefaultConfig()
				cfg.Timeouts.Body = 2 * time.Second
				r, line := loggedIn(t, loops, accesslog.Config{}, cfg, instanceOf(a, "m1"))
				client, br := r.send(t, wsHandshake)
				rawHead(t, br)
				sender, app := client, next()
				if side == "client" {
					sender = app
				}
				for {
					if _, err := sender.Write(make([]byte, 64<<10)); err != nil {
						break
					}
				}
				if l := line(); l.End != side {
					t.Errorf("ended by %s", l.End)
				}
				r.idle(t)
			})
		})
	}
}

// places is what counted repeats: a length that no buffer is a multiple of.
var places = sync.OnceValue(func() []byte {
	b := make([]byte, 65521)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)
	}
	return b
})

// counted are n bytes of a stream in which each place is known.
func counted(from, n int) []byte {
	b := make([]byte, 0, n)
	for len(b) < n {
		rest := places()[(from+len(b))%len(places()):]
		b = append(b, rest[:min(len(rest), n-len(b))]...)
	}
	return b
}

// tunnelScript says what both sides of a tunnel write, in which order: each byte
// is one piece of one of them.
func tunnelScript(script []byte) (client, app []int) {
	sizes := [...]int{1, 20, 511, 512, 513, 4000, 32 << 10, 70_000}
	for _, b := range script {
		if n := sizes[b>>1&7]; b&1 == 0 {
			client = append(client, n)
		} else {
			app = append(app, n)
		}
	}
	return client, app
}

// play has one side write its pieces, from a place of its stream on, end its half,
// and read all that comes: meanwhile or, if it is quiet, only then.
func play(nc net.Conn, in io.Reader, from int, pieces []int, quiet bool) (got []byte, err error) {
	var wg sync.WaitGroup
	read := func() { got, err = io.ReadAll(in) }
	if !quiet {
		wg.Go(read)
	}
	for _, n := range pieces {
		if _, err := nc.Write(counted(from, n)); err != nil {
			break // reading tells of it
		}
		from += n
	}
	nc.(interface{ CloseWrite() error }).CloseWrite()
	if quiet {
		wg.Go(read)
	}
	wg.Wait()
	return got, err
}

// passes has one tunnel carry a script.
func (r *rig) passes(t *testing.T, next func() net.Conn, script []byte) {
	t.Helper()
	var how byte
	if len(script) > 0 {
		how = script[0]
	}
	client, app := tunnelScript(script)
	toApp, toClient := 0, 0
	for _, n := range client {
		toApp += n
	}
	for _, n := range app {
		toClient += n
	}
	early := 0 // comes in one piece with the request
	if how&0x40 != 0 && len(client) > 0 {
		early = min(client[0], 3000)
		client[0] -= early
	}
	nc, br := r.send(t, wsHandshake+string(counted(0, early)))
	rawHead(t, br)
	other := next()
	var atApp, atClient []byte
	var errs [2]error
	var wg sync.WaitGroup
	wg.Go(func() { atApp, errs[0] = play(other, other, 0, app, false) })
	wg.Go(func() { atClient, errs[1] = play(nc, br, early, client, how&0x80 != 0) })
	wg.Wait()
	if !bytes.Equal(atApp, counted(0, toApp)) || errs[0] != nil {
		t.Errorf("%x: the app got %d bytes of %d, %v", script, len(atApp), toApp, errs[0])
	}
	if !bytes.Equal(atClient, counted(0, toClient)) || errs[1] != nil {
		t.Errorf("%x: the client got %d bytes of %d, %v", script, len(atClient), toClient, errs[1])
	}
	other.Close()
	nc.Close()
}

var tunnelScripts = [][]byte{
	nil,
	{0}, {1}, {0, 1}, {0x40}, {0x4a}, {0x8e, 0x0f, 0x0f, 0x0f, 0x0e},
	{0x0c, 0x0c, 0x0c, 0x0d, 0x0d, 0x0e, 0x0e, 0x0f}, // a lot both ways
	{0x06, 0x06, 0x06, 0x07, 0x07},                   // as long as what a goroutine waits with
	{0x04, 0x08, 0x05, 0x09, 0x00, 0x01},
	bytes.Repeat([]byte{0x00, 0x01, 0x02, 0x03}, 40),
	bytes.Repeat([]byte{0x0e}, 60),
	append([]byte{0xcf}, bytes.Repeat([]byte{0x0f}, 60)...),
	bytes.Repeat([]byte{0x0e, 0x0f, 0x0c, 0x0d, 0x02}, 10),
}

// What one side says the other gets, all of it and in order, and then the end.
func TestTunnel_passesAll(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, loops int) {
		for _, script := range tunnelScripts {
			t.Run(fmt.Sprintf("%.8x", script), func(t *testing.T) {
				t.Parallel()
				a, next := pipes(t)
				r := startRig(t, setup{loops: loops, apps: []Instance{instanceOf(a, "m1")}})
				for range 2 {
					r.passes(t, next, script)
				}
				if f := r.idle(t).Failures; f != 0 {
					t.Errorf("%d failures", f)
				}
			})
		}
	})
}

func FuzzTunnel_passesAll(f *testing.F) {
	for _, script := range tunnelScripts {
		f.Add(script)
	}
	var rigs [2]*rig
	var nexts [2]func() net.Conn
	for n, loops := range []int{1, -1} {
		var a *app
		a, nexts[n] = pipes(f)
		rigs[n] = startRig(f, setup{loops: loops, apps: []Instance{instanceOf(a, "m1")}})
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		for n, r := range rigs {
			r.passes(t, nexts[n], script[:min(len(script), 200)])
		}
	})
}

// waiting notes how large a buffer is that its reader waits with.
type waiting struct {
	net.Conn
	with atomic.Int64
}

func (w *waiting) Read(p []byte) (int, error) {
	w.with.Store(int64(len(p)))
	return w.Conn.Read(p)
}

// What a goroutine waits with is small, and larger only while much comes.
func TestTunnel_goroutinesWaitWithLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Proxy{}
		p.buffers.New = func() any { b := make([]byte, bigBuffer); return &b }
		near, far := net.Pipe()
		out, sink := net.Pipe()
		src := &waiting{Conn: near}
		got := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(sink) // what is missing shows below
			got <- b
		}()
		ended := make(chan ending, 2)
		var last atomic.Int64
		last.Store(time.Now().UnixNano())
		limits := Timeouts{Body: time.Minute, Tunnel: time.Hour}
		go p.oneWay(http1.NewConn(out, clientBuffer), http1.NewConn(src, clientBuffer), &limits, &last, func(e ending) { ended <- e })
		at := 0
		say := func(n int, want int64) {
			t.Helper()
			far.Write(counted(at, n))
			at += n
			synctest.Wait()
			if with := src.with.Load(); with != want {
				t.Errorf("after %d bytes it waits with %d", n, with)
			}
		}
		say(10, fewBytes)
		say(fewBytes-1, fewBytes)
		say(5000, bigBuffer)
		say(1, bigBuffer)
		time.Sleep(2 * hurries)
		say(1, fewBytes)
		say(bigBuffer*3, bigBuffer)
		time.Sleep(59 * time.Minute)
		say(1, fewBytes)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if e := <-ended; e != endIdle {
			t.Errorf("it ended by %v", e)
		}
		if b := <-got; !bytes.Equal(b, counted(0, at)) {
			t.Errorf("%d bytes of %d came", len(b), at)
		}
	})
}
