package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
)

func TestParseHead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want head
		err  error
	}{
		"whole":                   {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", head{size: 38, length: 5}, nil},
		"lower case":              {"HTTP/1.1 200 OK\r\ncontent-length:5\r\nx: y\r\n\r\n", head{size: 43, length: 5}, nil},
		"another field alike":     {"HTTP/1.1 200 OK\r\nContent-Language: 7\r\ncache-length: 8\r\nContent-Length: 5\r\n\r\n", head{size: 76, length: 5}, nil},
		"begun":                   {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", head{}, errNotYet},
		"nothing":                 {"", head{}, errNotYet},
		"error":                   {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", head{}, errStatus},
		"not HTTP":                {"SSH-2.0-x 200\r\n\r\n", head{}, errStatus},
		"short":                   {"\r\n\r\n", head{}, errStatus},
		"no length":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", head{}, errNoLength},
		"length that is none":     {"HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n", head{}, errNoLength},
		"length below none":       {"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", head{}, errNoLength},
		"length of the next body": {"HTTP/1.1 200 OK\r\n\r\nContent-Length: 5\r\n\r\n", head{}, errNoLength},
	} {
		got, err := parseHead([]byte(c.text))
		if !errors.Is(err, c.err) || err == nil && got != c.want {
			t.Errorf("%s: %+v, %v; want %+v, %v", name, got, err, c.want, c.err)
		}
	}
}

// FuzzParseHead holds it to net/http wherever that finds a length.
func FuzzParseHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.0 200 OK\r\nServer: x\r\ncontent-length:  0 \r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 \r\nC\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := parseHead(text)
		if err != nil {
			return
		}
		if h.size < 4 || h.size > len(text) || h.length < 0 {
			t.Fatalf("%q: %+v", text, h)
		}
		body := bytes.NewReader(nil)
		r, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(text[:h.size]), body)), nil)
		if err != nil || r.StatusCode != 200 || r.ContentLength < 0 {
			return // it is stricter, and reads more
		}
		if r.ContentLength != int64(h.length) {
			t.Fatalf("%q: %d, net/http says %d", text, h.length, r.ContentLength)
		}
	})
}

func TestBegins(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body, want string
		is         bool
	}{{"b001 xxx", "b001", true}, {"b002 xxx", "b001", false}, {"b00", "b001", false}, {"", "", true}, {"b009", "", true}} {
		if got := begins([]byte(c.body), c.want); got != c.is {
			t.Errorf("%q begins with %q: %v", c.body, c.want, got)
		}
	}
}
