package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Answers that have no body end at the blank line at once, whatever their fields
// say, which pass where they mean something; what an instance sends behind them
// is nobody's answer.
func TestCase_D04_answersWithoutBody(t *testing.T) {
	t.Parallel()
	const (
		none    = ""
		modest  = "HTTP/1.1 304 Not Modified\r\n"
		nothing = "HTTP/1.1 204 No Content\r\n"
	)
	for name, tc := range map[string]struct {
		method, reply string
		framing       string // the fields of it that the client gets
		conns         int    // of the app, after another request
	}{
		"HEAD, length":           {"HEAD", head200 + "Content-Length: 1234\r\n\r\n", "Content-Length: 1234\r\n", 1},
		"HEAD, length 0":         {"HEAD", head200 + "Content-Length: 0\r\n\r\n", "Content-Length: 0\r\n", 1},
		"HEAD, chunked":          {"HEAD", head200 + "Transfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked\r\n", 1},
		"HEAD, neither":          {"HEAD", head200 + "\r\n", none, 1},
		"HEAD, with body":        {"HEAD", head200 + "Content-Length: 4\r\n\r\nXXXX", "Content-Length: 4\r\n", 2},
		"HEAD, 404":              {"HEAD", "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n", "Content-Length: 9\r\n", 1},
		"304, length":            {"GET", modest + "Content-Length: 99\r\n\r\n", "Content-Length: 99\r\n", 1},
		"304, nothing":           {"GET", modest + "ETag: \"a\"\r\n\r\n", none, 1},
		"304, chunked":           {"GET", modest + "Transfer-Encoding: chunked\r\n\r\n", none, 1},
		"304, with body":         {"GET", modest + "Content-Length: 4\r\n\r\nXXXX", "Content-Length: 4\r\n", 2},
		"304 to HEAD":            {"HEAD", modest + "Content-Length: 99\r\n\r\n", "Content-Length: 99\r\n", 1},
		"204":                    {"GET", nothing + "\r\n", none, 1},
		"204, length":            {"GET", nothing + "Content-Length: 4\r\n\r\n", none, 1},
		"204, chunked":           {"GET", nothing + "Transfer-Encoding: chunked\r\n\r\n", none, 1},
		"204, with body":         {"GET", nothing + "\r\nXXXX", none, 2},
		"204 to DELETE":          {"DELETE", nothing + "\r\n", none, 1},
		"length 0 has no body":   {"GET", head200 + "Content-Length: 0\r\n\r\n", "Content-Length: 0\r\n", 1},
		"length 0, with a body":  {"GET", head200 + "Content-Length: 0\r\n\r\nXXXX", "Content-Length: 0\r\n", 2},
		"HEAD, says it closes":   {"HEAD", head200 + "Content-Length: 7\r\nConnection: close\r\n\r\n", "Content-Length: 7\r\n", 2},
		"HEAD of HTTP/1.0":       {"HEAD", "HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\n", "Content-Length: 7\r\n", 2},
		"HEAD, both":             {"HEAD", head200 + "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked\r\n", 1},
		"205 with a length of 0": {"GET", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", "Content-Length: 0\r\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, a := one(t, hostile(tc.reply))
			nc, br := r.send(t, tc.method+" /p HTTP/1.1\r\nHost: x\r\n\r\n")
			head := rawHead(t, br) // it does not wait for a body until a timeout: those are longer than patience
			framing := ""
			for line := range strings.Lines(head) {
				if f := strings.ToLower(line); strings.HasPrefix(f, "content-length") || strings.HasPrefix(f, "transfer-encoding") {
					framing += line
				}
			}
			if status, _, _ := strings.Cut(tc.reply, "\r\n"); framing != tc.framing || head[9:12] != status[9:12] || strings.Contains(head, "Connection: close") {
				t.Errorf("head %q", head)
			}
			io.WriteString(nc, canary)
			if resp, body := read(t, br, "GET"); resp.StatusCode != http.StatusOK || body != "canary" {
				t.Errorf("next: %d %q", resp.StatusCode, body)
			}
			if _, seen := a.conns(); seen != tc.conns {
				t.Errorf("%d connections to the app, want %d", seen, tc.conns)
			}
			if f := r.idle(t).Failures; f != 0 {
				t.Errorf("%d failures", f)
			}
		})
	}
}

// The same for a client of HTTP/1.0, whose connection can be kept.
func TestCase_D04_oldClients(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]string{
		"HEAD": head200 + "Transfer-Encoding: chunked\r\n\r\n",
		"GET":  "HTTP/1.1 204 No Content\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := one(t, hostile(reply))
			nc, br := r.send(t, name+" /p HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
			if head := rawHead(t, br); strings.Contains(head, "Transfer-Encoding") || strings.Contains(head, "Content-Length") {
				t.Errorf("head %q", head)
			}
			io.WriteString(nc, "GET /canary HTTP/1.0\r\n\r\n")
			if _, body := read(t, br, "GET"); body != "canary" {
				t.Errorf("next: %q", body)
			}
		})
	}
}
