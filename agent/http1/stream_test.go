package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"
)

// heard is what one reader made of a message.
type heard struct {
	start  string // method or status
	host   string // as the Host field says it
	minor  int
	fields string // by name, in order; without those that frame
	body   string
}

// collect puts fields in a form that can be compared: names as net/http has
// them, values in the order in which they came.
func collect(fields []Field) string {
	all := map[string][]string{}
	for _, f := range fields {
		switch f.Known {
		case Host, ContentLength, TransferEncoding:
			continue // kept elsewhere there
		}
		name := textproto.CanonicalMIMEHeaderKey(string(f.Name))
		all[name] = append(all[name], string(f.Value))
	}
	return listed(all)
}

func listed(all map[string][]string) string {
	var out []string
	for name, values := range all {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Cache-Control": // the last one is made up there from Pragma
		default:
			out = append(out, fmt.Sprintf("%s=%q", name, values))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// wholeBody moves a body to its end and returns its plain data.
func wholeBody(c *Conn, f Framing, length int64) (string, error) {
	var b Body
	b.Begin(f, length, true, nil)
	var all []byte
	for {
		piece, done, err := b.Next(c, nil)
		all = append(all, piece...)
		if done || err != nil {
			return string(all), err
		}
	}
}

// requestsHere reads a stream as the proxy does. It returns each message that
// it takes, and the message's bytes with a plain target in place of its own.
func requestsHere(in []byte, cut int) (list []heard, plain []byte, trailing bool) {
	total := &counting{at: len(in)}
	c := conn(64, string(in[:cut]), string(in[cut:]))
	for {
		head, err := c.ReadHead(Limits{Head: 1 << 20})
		if err != nil {
			return list, plain, trailing
		}
		var q Request
		raw := bytes.Clone(head)
		if q.Parse(raw) != nil {
			return list, plain, trailing
		}
		m := heard{start: string(q.Method), minor: q.Minor, fields: collect(q.Fields.Fields)}
		for _, f := range q.Fields.Fields {
			if f.Known == Host {
				m.host = string(f.Value)
			}
			trailing = trailing || EqualFold(f.Name, "trailer")
		}
		start := total.left(c)
		if m.body, err = wholeBody(c, q.Framing, q.Length); err != nil {
			return list, plain, trailing
		}
		line := bytes.IndexByte(raw, '\n') + 1
		version := bytes.LastIndexByte(raw[:line], ' ')
		plain = append(append(append(plain, q.Method...), " /"...), raw[version:]...)
		plain = append(plain, in[start:total.left(c)]...)
		list = append(list, m)
	}
}

// counting tells how much of an input has been consumed.
type counting struct{ at int }

func (n *counting) left(c *Conn) int {
	rest := c.Buffered()
	for _, p := range c.Conn.(*feed).pieces {
		rest += len(p)
	}
	return n.at - rest
}

// FuzzRequestStream holds the whole reader against net/http's: of several
// requests in a row, those that we take it takes too, with the same method,
// host, fields and body, and each begins where it begins here.
func FuzzRequestStream(f *testing.F) {
	const next = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, s := range requestSeeds {
		f.Add([]byte(s+next), uint16(7))
	}
	for _, s := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 05\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000005\r\nhello\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5 ;x\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n",
		"\r\nGET http://a/b?c HTTP/1.2\r\nHost: d\r\nPragma: no-cache\r\nA:\r\na: b\r\n\r\n",
	} {
		f.Add([]byte(s+next), uint16(40))
	}
	f.Fuzz(func(t *testing.T, in []byte, at uint16) {
		list, plain, trailing := requestsHere(in, int(at)%(len(in)+1))
		if trailing {
			return // it looks at what is announced, which we drop
		}
		there := bufio.NewReaderSize(bytes.NewReader(plain), 1<<18)
		for n, m := range list {
			q, err := http.ReadRequest(there)
			if err != nil {
				t.Fatalf("%q: message %d is taken here, there: %v", in, n, err)
			}
			body, err := io.ReadAll(q.Body)
			if err != nil {
				t.Fatalf("%q: body %d is taken here, there: %v", in, n, err)
			}
			got := heard{start: q.Method, host: q.Host, minor: min(q.ProtoMinor, 1), fields: listed(q.Header), body: string(body)}
			if got != m {
				t.Fatalf("%q: message %d is %+v here, there %+v", in, n, m, got)
			}
		}
		if rest, _ := io.ReadAll(there); len(rest) > 0 {
			t.Fatalf("%q: there %q is left", in, rest)
		}
	})
}

// FuzzResponseStream does the same with answers to GET and HEAD.
func FuzzResponseStream(f *testing.F) {
	const next = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n",
		"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.0 200\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nuntil the end",
	} {
		for _, methods := range []uint8{0, 1, 2} {
			f.Add([]byte(s+next), uint16(30), methods)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, at uint16, methods uint8) {
		cut := int(at) % (len(in) + 1)
		total := &counting{at: len(in)}
		c := conn(64, string(in[:cut]), string(in[cut:]))
		for n := range 8 {
			method := "GET"
			if methods>>n&1 == 1 {
				method = "HEAD"
			}
			head, err := c.ReadHead(Limits{Head: 1 << 20})
			var p Response
			raw := bytes.Clone(head)
			if err != nil || p.Parse(raw, []byte(method)) != nil || p.Status == 101 {
				return
			}
			if p.codings > 0 && p.Framing == NoBody {
				return // it ends at the empty line whatever it says; there, some are refused
			}
			for _, f := range p.Fields.Fields {
				if EqualFold(f.Name, "trailer") {
					return
				}
			}
			start := total.left(c)
			body, err := wholeBody(c, p.Framing, p.Length)
			if err != nil {
				return
			}
			here := heard{start: fmt.Sprint(p.Status), minor: p.Minor, fields: collect(p.Fields.Fields), body: body}
			whole := append(raw, in[start:total.left(c)]...)
			there := bufio.NewReaderSize(bytes.NewReader(whole), 1<<18)
			r, err := http.ReadResponse(there, &http.Request{Method: method})
			if err != nil {
				t.Fatalf("%q: answer %d is taken here, there: %v", in, n, err)
			}
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Fatalf("%q: body %d is taken here, there: %v", in, n, err)
			}
			if got := (heard{start: fmt.Sprint(r.StatusCode), minor: min(r.ProtoMinor, 1), fields: listed(r.Header), body: string(b)}); got != here {
				t.Fatalf("%q: answer %d is %+v here, there %+v", in, n, here, got)
			}
			if rest, _ := io.ReadAll(there); len(rest) > 0 {
				t.Fatalf("%q: there %q is left", in, rest)
			}
			if p.Framing == UntilClose {
				return
			}
		}
	})
}
