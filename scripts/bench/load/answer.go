package load

import (
	"bytes"
	"errors"
	"strconv"
)

// What an answer can be wrong in. Each is a kind of error in a Tally.
var (
	errNotYet    = errors.New("head incomplete")
	errStatus    = errors.New("status other than 200")
	errNoLength  = errors.New("no Content-Length")
	errInstance  = errors.New("wrong instance for the cookie")
	errBroken    = errors.New("connection broke off")
	errMore      = errors.New("more than the answer")
	errConnect   = errors.New("no connection")
	errWrite     = errors.New("request not taken at once")
	errHandshake = errors.New("TLS handshake failed")
	errSilence   = errors.New("nothing came for 5 s")
	errLarge     = errors.New("head too large")
)

// head is what matters of an answer's head.
type head struct {
	size   int // of the head in bytes, with the empty line
	length int // of the body
}

// parseHead reads a head at the beginning of b; errNotYet until it is whole.
func parseHead(b []byte) (h head, err error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return h, errNotYet
	}
	h = head{size: end + 4, length: -1}
	if len(b) < 13 || string(b[:7]) != "HTTP/1." || string(b[8:12]) != " 200" {
		return h, errStatus
	}
	for lines := b[:end+2]; len(lines) > 0; {
		i := bytes.IndexByte(lines, '\n')
		line := lines[:max(i, 0)]
		lines = lines[i+1:]
		const name = "content-length:"
		if len(line) < len(name) || line[0]|0x20 != 'c' || line[8]|0x20 != 'l' || !bytes.EqualFold(line[:len(name)], []byte(name)) {
			continue
		}
		n, err := strconv.Atoi(string(bytes.TrimSpace(line[len(name):])))
		if err != nil || n < 0 {
			return h, errNoLength
		}
		h.length = n
	}
	if h.length < 0 {
		return h, errNoLength
	}
	return h, nil
}

// begins reports whether a body is one of the instance's: false too as long as too
// little of it is there.
func begins(body []byte, want string) bool {
	return want == "" || len(body) >= len(want) && string(body[:len(want)]) == want
}
