package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// hostile answers /canary well and all else with reply, after which it goes on
// as if that had been fine.
func hostile(reply string) func(net.Conn) {
	return func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			text := reply
			if q.URL.Path == "/canary" {
				text = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\ncanary"
			}
			if _, err := io.WriteString(nc, text); err != nil {
				return
			}
		}
	}
}

const (
	head200 = "HTTP/1.1 200 OK\r\n"
	evil    = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
)

// hostileAnswers are responses that an instance should not give. With status
// 200 the body is what the client gets; broken, the client sees that it is not
// whole. Never does anything of them reach the next answer.
var hostileAnswers = map[string]struct {
	method, reply string
	status        int
	body          string
	broken        bool
}{
	"two lengths":            {"GET", head200 + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", 502, "", false},
	"two lengths, list":      {"GET", head200 + "Content-Length: 5, 6\r\n\r\nabcde", 502, "", false},
	"same length twice":      {"GET", head200 + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde", 200, "abcde", false},
	"length and chunks":      {"GET", head200 + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n" + evil, 200, "abcde", false},
	"plus":                   {"GET", head200 + "Content-Length: +5\r\n\r\nabcde", 502, "", false},
	"minus":                  {"GET", head200 + "Content-Length: -1\r\n\r\n", 502, "", false},
	"hexadecimal":            {"GET", head200 + "Content-Length: 0x5\r\n\r\nabcde", 502, "", false},
	"huge":                   {"GET", head200 + "Content-Length: 99999999999999999999\r\n\r\nabcde", 502, "", false},
	"empty length":           {"GET", head200 + "Content-Length:\r\n\r\nabcde", 502, "", false},
	"identity":               {"GET", head200 + "Transfer-Encoding: identity\r\n\r\nabcde", 502, "", false},
	"gzip, chunked":          {"GET", head200 + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 502, "", false},
	"chunked, gzip":          {"GET", head200 + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 502, "", false},
	"chunked twice":          {"GET", head200 + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502, "", false},
	"chunked in HTTP/1.0":    {"GET", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502, "", false},
	"bare line feeds":        {"GET", "HTTP/1.1 200 OK\nContent-Length: 5\n\nabcde", 502, "", false},
	"one bare line feed":     {"GET", head200 + "X: a\nContent-Length: 5\r\n\r\nabcde", 502, "", false},
	"bare CR":                {"GET", head200 + "X: a\rSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\nabcde", 502, "", false},
	"NUL":                    {"GET", head200 + "X: a\x00b\r\nContent-Length: 5\r\n\r\nabcde", 502, "", false},
	"folded":                 {"GET", head200 + "X: a\r\n b\r\nContent-Length: 5\r\n\r\nabcde", 502, "", false},
	"space before colon":     {"GET", head200 + "Content-Length : 5\r\n\r\nabcde", 502, "", false},
	"no colon":               {"GET", head200 + "evil\r\nContent-Length: 5\r\n\r\nabcde", 502, "", false},
	"status of two digits":   {"GET", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n", 502, "", false},
	"status of four digits":  {"GET", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", 502, "", false},
	"status 099":             {"GET", "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", 502, "", false},
	"no space":               {"GET", "HTTP/1.1 200OK\r\nContent-Length: 0\r\n\r\n", 502, "", false},
	"HTTP/2":                 {"GET", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", 502, "", false},
	"another protocol":       {"GET", "ICY 200 OK\r\n\r\n", 502, "", false},
	"control in reason":      {"GET", "HTTP/1.1 200 O\x1bK\r\nContent-Length: 0\r\n\r\n", 502, "", false},
	"head over the limit":    {"GET", head200 + "X: " + strings.Repeat("x", 300<<10) + "\r\n\r\n", 502, "", false},
	"endless fields":         {"GET", head200 + strings.Repeat("A: b\r\n", 100000), 502, "", false},
	"line over the limit":    {"GET", "HTTP/1.1 200 " + strings.Repeat("x", 300<<10), 502, "", false},
	"switching unasked":      {"GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nevil", 502, "", false},
	"another answer behind":  {"GET", head200 + "Content-Length: 5\r\n\r\nabcde" + evil, 200, "abcde", false},
	"answer behind chunks":   {"GET", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n" + evil, 200, "abcde", false},
	"longer than its length": {"GET", head200 + "Content-Length: 5\r\n\r\nabcdefgh", 200, "abcde", false},
	"body of a 204":          {"GET", "HTTP/1.1 204 No Content\r\n\r\nXXXX", 204, "", false},
	"answer behind a 204":    {"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\n" + evil, 204, "", false},
	"chunks of a 204":        {"GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n", 204, "", false},
	"answer behind a 304":    {"GET", "HTTP/1.1 304 Not Modified\r\n\r\n" + evil, 304, "", false},
	"body of a HEAD":         {"HEAD", head200 + "Content-Length: 4\r\n\r\nevil", 200, "", false},
	"answer behind an empty": {"GET", head200 + "Content-Length: 0\r\n\r\n" + evil, 200, "", false},
	"cut short":              {"GET", head200 + "Content-Length: 3\r\nConnection: close\r\n\r\nab" + "\x00", 200, "ab\x00", false},
	"bad size":               {"GET", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nzz\r\n", 200, "abcde", true},
	"size with space":        {"GET", head200 + "Transfer-Encoding: chunked\r\n\r\n5 \r\nabcde\r\n0\r\n\r\n", 200, "", true},
	"size over 64 bits":      {"GET", head200 + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nabcde\r\n0\r\n\r\n", 200, "", true},
	"no end of a chunk":      {"GET", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcdeXX0\r\n\r\n", 200, "abcde", true},
	"CR in extension":        {"GET", head200 + "Transfer-Encoding: chunked\r\n\r\n5;a=\rb\r\nabcde\r\n0\r\n\r\n", 200, "", true},
	"bad trailer":            {"GET", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\nevil\r\n\r\n", 200, "abcde", true},
	"endless trailers":       {"GET", head200 + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n" + strings.Repeat("A: b\r\n", 20000), 200, "abcde", true},
}

func TestCase_D01_hostileInstances(t *testing.T) {
	t.Parallel()
	for name, tc := range hostileAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", hostile(tc.reply))
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.send(t, tc.method+" /p HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, err := http.ReadResponse(br, &http.Request{Method: tc.method})
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.status || tc.status != 502 && string(b) != tc.body || (err != nil) != tc.broken {
				t.Errorf("%d %q %v", resp.StatusCode, b, err)
			}
			for _, field := range []string{"Content-Length", "Transfer-Encoding"} {
				if (tc.status == 204 || resp.StatusCode == 304) && resp.Header.Get(field) != "" {
					t.Errorf("%s: %q", field, resp.Header.Get(field))
				}
			}
			if !tc.broken {
				if resp.Close {
					t.Error("the client's connection pays for it")
				}
				io.WriteString(nc, canary)
				if _, body := read(t, br, "GET"); body != "canary" {
					t.Errorf("next: %q", body)
				}
			} else if rest, _ := io.ReadAll(br); len(rest) > 0 {
				t.Errorf("then %q", rest)
			}
			for range 3 { // whatever the instance has sent is nobody else's answer
				_, br := r.send(t, canary)
				if _, body := read(t, br, "GET"); body != "canary" {
					t.Errorf("somebody else: %q", body)
				}
			}
		})
	}
}

// Interim answers are bounded, and frame nothing.
func TestCase_D01_interimFlood(t *testing.T) {
	t.Parallel()
	const early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\nConnection: Link2\r\nLink2: x\r\n\r\n"
	for n, status := range map[int]int{64: 200, 65: 502, 5000: 502} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", hostile(strings.Repeat(early, n)+evil))
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.send(t, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n")
			for range min(n, 64) {
				head := rawHead(t, br)
				if !strings.HasPrefix(head, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n") || strings.Contains(head, "Content-Length") || strings.Contains(head, "Transfer") || strings.Contains(head, "Link2") {
					t.Fatalf("interim %q", head)
				}
			}
			if resp, body := read(t, br, "GET"); resp.StatusCode != status {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
			io.WriteString(nc, canary)
			if _, body := read(t, br, "GET"); body != "canary" {
				t.Errorf("next: %q", body)
			}
		})
	}
}

// What an instance says by Rondel's own headers cannot become another field,
// another cookie, or another answer.
func TestCase_D01_headersOfOursFromInstances(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]string{
		"cookie attributes":  "Rondel-Session: x; Domain=evil.example; Path=/\r\n",
		"quotes":             "Rondel-Session: \"x\"\r\n",
		"no value":           "Rondel-Session:\r\n",
		"beyond ASCII":       "Rondel-Session: \xe4\xf6\xfc\r\n",
		"long":               "Rondel-Session: " + strings.Repeat("x", 100000) + "\r\n",
		"many":               strings.Repeat("Rondel-Session: x\r\n", 100),
		"underscores":        "Rondel_Session: x\r\nRONDEL_REQUEST_ID: x\r\n",
		"request id":         "Rondel-Request-Id: x\r\nrondel-request-id: y\r\n",
		"dropped, in a list": "Rondel-Session: drop, x\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startApp(t, "a1", hostile(head200+fields+"Content-Length: 2\r\n\r\nok"))
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.send(t, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n")
			head := rawHead(t, br)
			lower := strings.ReplaceAll(strings.ToLower(head), "_", "-")
			if strings.Contains(lower, "rondel-session") || strings.Count(lower, "rondel-request-id") != 1 || strings.Contains(lower, "evil.example") || strings.Count(lower, "set-cookie") != 1 {
				t.Errorf("head %.2000q", head)
			}
			io.ReadFull(br, make([]byte, 2))
			io.WriteString(nc, canary)
			if _, body := read(t, br, "GET"); body != "canary" {
				t.Errorf("next: %q", body)
			}
		})
	}
}
