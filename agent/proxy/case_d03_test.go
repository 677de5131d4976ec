package proxy

import (
	"io"
	"strings"
	"testing"
)

// Trailers of answers reach HTTP/1.1 clients, announced or not, with a body or
// without; none of them may say what only a head may. HTTP/2 has tests of its own.
func TestCase_D03_trailersOfAnswers(t *testing.T) {
	t.Parallel()
	const chunkedHead = head200 + "Transfer-Encoding: chunked\r\n"
	for name, tc := range map[string]struct{ reply, body, trailers string }{
		"announced":       {chunkedHead + "Trailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", "abc", "X-Sum: 1\r\n"},
		"not announced":   {chunkedHead + "\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", "abc", "X-Sum: 1\r\n"},
		"no body":         {chunkedHead + "\r\n0\r\nGrpc-Status: 7\r\nGrpc-Message: no%20way\r\n\r\n", "", "Grpc-Status: 7\r\nGrpc-Message: no%20way\r\n"},
		"several of one":  {chunkedHead + "\r\n3\r\nabc\r\n0\r\nA: 1\r\na: 2\r\nA:\r\n\r\n", "abc", "A: 1\r\na: 2\r\nA:\r\n"},
		"none":            {chunkedHead + "Trailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc", ""},
		"what may not":    {chunkedHead + "\r\n3\r\nabc\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\nSet-Cookie: a=b\r\nHost: x\r\nConnection: x\r\nDate: x\r\nX-Sum: 1\r\n\r\n", "abc", "X-Sum: 1\r\n"},
		"to the proxy":    {chunkedHead + "\r\n3\r\nabc\r\n0\r\nRondel-Session: drop\r\nrondel_request_id: x\r\nX-Sum: 1\r\n\r\n", "abc", "X-Sum: 1\r\n"},
		"a long one":      {chunkedHead + "\r\n3\r\nabc\r\n0\r\nX: " + strings.Repeat("x", 30000) + "\r\n\r\n", "abc", "X: " + strings.Repeat("x", 30000) + "\r\n"},
		"many chunks too": {chunkedHead + "\r\n" + strings.Repeat("1\r\na\r\n", 2000) + "0\r\nX-Sum: 1\r\n\r\n", strings.Repeat("a", 2000), "X-Sum: 1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := one(t, hostile(tc.reply))
			nc, br := r.send(t, "GET /p HTTP/1.1\r\nHost: x\r\nTE: trailers\r\n\r\n")
			head := rawHead(t, br)
			if strings.Contains(head, "Content-Length") || !strings.Contains(head, "Transfer-Encoding: chunked\r\n") {
				t.Errorf("head %q", head)
			}
			if strings.Contains(tc.reply, "Trailer:") != strings.Contains(head, "Trailer: X-Sum\r\n") {
				t.Errorf("announced in %q", head)
			}
			body := ""
			for {
				line, err := br.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if line == "0\r\n" {
					break
				}
				data, err := br.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				body += strings.TrimSuffix(data, "\r\n")
			}
			trailers := strings.TrimSuffix(rawHead(t, br), "\r\n")
			if body != tc.body || trailers != tc.trailers {
				t.Errorf("body of %d bytes, trailers %.200q", len(body), trailers)
			}
			io.WriteString(nc, canary)
			if _, body := read(t, br, "GET"); body != "canary" {
				t.Errorf("next: %q", body)
			}
		})
	}
}

// An HTTP/1.0 client cannot get chunks, and so no trailers: it gets the body.
func TestCase_D03_trailersForOldClients(t *testing.T) {
	t.Parallel()
	r, _ := one(t, hostile(head200+"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"))
	_, br := r.send(t, "GET /p HTTP/1.0\r\n\r\n")
	if head := rawHead(t, br); strings.Contains(head, "Transfer-Encoding") {
		t.Errorf("head %q", head)
	}
	if rest, _ := io.ReadAll(br); string(rest) != "abc" {
		t.Errorf("got %q", rest)
	}
}

// Of TE only trailers is passed on, and only when the client said it.
func TestCase_D03_te(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	r, _ := one(t, raw(got, ok))
	for fields, want := range map[string]string{
		"TE: trailers\r\n": "TE: trailers\r\n",
		"Connection: TE\r\nTE: trailers, gzip;q=0.5\r\n": "TE: trailers\r\n",
		"te: deflate\r\nTE: Trailers\r\n":                "TE: trailers\r\n",
		"TE: gzip\r\n":                                   "",
		"TE: trailersx\r\n":                              "",
		"":                                               "",
	} {
		nc, br := r.send(t, "GET / HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n")
		read(t, br, "GET")
		nc.Close()
		head := <-got
		if strings.Contains(head, "gzip") || strings.Contains(head, "deflate") || strings.Count(strings.ToLower(head), "\nte:") != strings.Count(want, "TE") || !strings.Contains(head, want) {
			t.Errorf("%q became %q", fields, head)
		}
		if want != "" && !strings.Contains(head, "Connection: TE\r\n") {
			t.Errorf("TE is not named a hop's own in %q", head)
		}
	}
}

// Trailers of requests are checked and dropped, along with their announcement:
// they override nothing.
func TestCase_D03_trailersOfRequests(t *testing.T) {
	t.Parallel()
	rec := &recorder{}
	r, _ := one(t, rec.handle)
	nc, br := r.send(t, post(chunkedField+"Trailer: X-Sum, Authorization\r\nX-Sum: head\r\n", "5\r\nhello\r\n0\r\nX-Sum: trailer\r\nAuthorization: evil\r\nContent-Length: 3\r\n\r\n")+canary)
	for range 2 {
		if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	nc.Close()
	if got := rec.all(); len(got) != 2 || got[0] != saw || got[1] != "GET /canary " {
		t.Errorf("the app saw %q", got)
	}
	if head := rec.heads[0]; !strings.Contains(head, "X-Sum: head") || strings.Contains(head, "Trailer:") || strings.Contains(head, "evil") {
		t.Errorf("the app saw %q", head)
	}
}
