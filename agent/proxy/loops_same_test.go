package proxy

import (
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// twins are two proxies that are alike, but that plain requests are carried in
// event loops by one and in goroutines by the other. Each has an instance of
// its own that says what it is told to.
type twins [2]*twin

type twin struct {
	rig *rig
	app *app

	mu    sync.Mutex // guards the rest
	reply string
	close bool     // the connection, behind each reply
	heads []string // that the instance got
}

func newTwins(t testing.TB) twins {
	var both twins
	for n, loops := range []int{1, -1} {
		tw := &twin{}
		tw.app = startApp(t, "a1", tw.answer)
		cfg := DefaultConfig()
		cfg.Routes = []Route{DefaultRoute("shop")}
		cfg.Timeouts.Response, cfg.Timeouts.Header = 300*time.Millisecond, 300*time.Millisecond
		tw.rig = startRig(t, setup{cfg: cfg, loops: loops, apps: []Instance{instanceOf(tw.app, "m1")}})
		both[n] = tw
	}
	return both
}

func (tw *twin) answer(nc net.Conn) {
	buf := make([]byte, 64<<10)
	for n := 0; ; {
		end := strings.Index(string(buf[:n]), "\r\n\r\n")
		if end < 0 {
			m, err := nc.Read(buf[n:])
			if err != nil {
				return
			}
			n += m
			continue
		}
		tw.mu.Lock()
		tw.heads = append(tw.heads, string(buf[:n])) // bodies have come with their heads
		n = 0
		_, err := io.WriteString(nc, tw.reply)
		if tw.close { // before the next POST, which would be lost if it came first
			nc.Close()
		}
		tw.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// converse sends the pieces and returns what the client gets back, and what the
// instance got.
func (tw *twin) converse(t testing.TB, pieces []string, reply string, last bool) (client, instance string) {
	t.Helper()
	tw.mu.Lock()
	tw.reply, tw.close, tw.heads = reply, last, nil
	tw.mu.Unlock()
	nc, err := net.Dial("tcp", tw.rig.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	for _, p := range pieces {
		if _, err := io.WriteString(nc, p); err != nil {
			break // the proxy has refused what came before, and says so
		}
	}
	nc.(*net.TCPConn).CloseWrite()
	got, _ := io.ReadAll(nc) // a reset is the end too
	eventually(t, "nothing is under way", func() bool { return tw.rig.Totals().InFlight == 0 })
	tw.mu.Lock()
	defer tw.mu.Unlock()
	return usual(string(got)), usual(strings.Join(tw.heads, "|"))
}

var unusual = []*regexp.Regexp{
	regexp.MustCompile(`(Rondel-Request-Id: )[0-9a-f]{32}`),
	regexp.MustCompile(`(Date: )[A-Z][a-z]{2}, [0-9]{2} [A-Za-z]{3} [0-9]{4} [0-9:]{8} GMT`),
	regexp.MustCompile(`()v1~1~[0-9]+~[A-Z0-9]+`),
	regexp.MustCompile(`((?:for="|Host: )127.0.0.1:)[0-9]+`),
}

// usual takes out what differs from one time to the next.
func usual(s string) string {
	for _, re := range unusual {
		s = re.ReplaceAllString(s, "${1}*")
	}
	return s
}

func (both twins) same(t testing.TB, pieces []string, reply string, last bool) {
	t.Helper()
	var inLoop, at, plain, there string
	// A client that has ended its half is given up after 100 ms, in which a busy
	// machine may not have come to an answer.
	for end := time.Now().Add(patience); time.Now().Before(end); {
		inLoop, at = both[0].converse(t, pieces, reply, last)
		plain, there = both[1].converse(t, pieces, reply, last)
		if inLoop == plain && at == there {
			return
		}
	}
	if inLoop != plain {
		t.Errorf("asked %.200q, answered %.200q:\nin a loop   %.500q\nin goroutine %.500q", pieces, reply, inLoop, plain)
	}
	if at != there {
		t.Errorf("asked %.200q, answered %.200q: the instance got\nfrom a loop   %.500q\nfrom goroutine %.500q", pieces, reply, at, there)
	}
}

var sameRequests = []string{
	"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /a?b HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: a=b; RONDEL=x\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: x\r\n\r\nGET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /4 HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
	"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhelloGET /2 HTTP/1.1\r\nHost: x\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.0\r\n\r\n",
	"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET / HTTP/1.1\r\n\r\n",
	"GET / HTTP/1.1\nHost: x\n\n",
	"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\r\nTE: trailers\r\nConnection: TE, X-Own\r\nX-Own: 1\r\n\r\n",
	"",
}

var sameReplies = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\nSet-Cookie: a=b\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	"HTTP/1.1 204 No Content\r\nRondel-Session: drop\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: \"x\"\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
	"HTTP/1.0 200 OK\r\n\r\nto the end",
	"HTTP/1.1 200 OK\r\n\r\nto the end",
	"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ntoo short",
	"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello",
	"nonsense\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Le",
	"",
}

// What a client and an instance get does not depend on how the request is carried.
func TestLoops_sameAsGoroutines(t *testing.T) {
	t.Parallel()
	both := newTwins(t)
	for _, q := range sameRequests {
		for _, reply := range sameReplies {
			both.same(t, []string{q}, reply, true)
		}
		// Bytes that the instance has yet to end with are waited for.
		for _, reply := range sameReplies[:8] {
			both.same(t, []string{q}, reply, false)
		}
		if head, body, _ := strings.Cut(q, "\r\n\r\n"); len(body) > 4 && q[0] == 'P' {
			both.same(t, []string{head + "\r\n\r\n", body[:2], body[2:]}, sameReplies[0], true)
			both.same(t, []string{head + "\r\n\r\n", body[:2]}, sameReplies[0], true)
		}
		if len(q) > 20 {
			both.same(t, []string{q[:3], q[3 : len(q)-1], q[len(q)-1:]}, sameReplies[0], false)
		}
	}
}

func FuzzLoops_sameAsGoroutines(f *testing.F) {
	for i, q := range sameRequests {
		f.Add(q, sameReplies[i%len(sameReplies)], true, uint16(i))
		f.Add(q, sameReplies[(i+5)%len(sameReplies)], false, uint16(3*i))
	}
	both := newTwins(f)
	f.Fuzz(func(t *testing.T, q, reply string, last bool, cut uint16) {
		if len(q) > 8<<10 || len(reply) > 32<<10 || strings.Contains(q, "\r\n\r\n") && strings.Count(q, "\r\n\r\n") > 4 {
			return // the instance above takes a request to be what came at one time
		}
		at := int(cut) % (len(q) + 1)
		if strings.Contains(q[:at], "\r\n\r\n") {
			at = 0
		}
		both.same(t, []string{q[:at], q[at:]}, reply, last)
	})
}
