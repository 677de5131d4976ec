package accesslog

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func sample() Entry {
	return Entry{
		Time:   time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC),
		Client: []byte("203.0.113.7"), Scheme: "https", Method: []byte("GET"), Host: []byte("shop.example.com"),
		Target: []byte("/cart;jsessionid=s3cret/x?page=2&token=abc&flag"), Protocol: "HTTP/1.1", Status: 200, In: 512, Out: 1500, Body: 1200,
		Referer: []byte("https://shop.example.com/a?code=1"), UserAgent: []byte(`agent "x" \ 1.0`),
		RequestID: []byte("00112233445566778899aabbccddeeff"), Route: "shop", Service: "store", Instance: "shop-1", Member: "0f3c",
		Tries: 2, Why: "owner", End: "done",
		Head: 1500 * time.Microsecond, Queue: 0, Connect: 250 * time.Microsecond, First: 12 * time.Millisecond, Total: 1234567 * time.Microsecond,
	}
}

func line(e Entry, f Format, q Query) string { return string(e.append(nil, f, q)) }

func TestEntry_json(t *testing.T) {
	t.Parallel()
	e := sample()
	want := `{"time":"2026-03-04T05:06:07.089Z","client":"203.0.113.7","scheme":"https","method":"GET","host":"shop.example.com",` +
		`"target":"/cart;jsessionid=*/x?page=*&token=*&flag","protocol":"HTTP/1.1","status":200,"bytes_in":512,"bytes_out":1500,` +
		`"referer":"https://shop.example.com/a?code=*","user_agent":"agent \"x\" \\ 1.0","request_id":"00112233445566778899aabbccddeeff",` +
		`"route":"shop","service":"store","instance":"shop-1@0f3c","tries":2,"chosen":"owner","end":"done",` +
		`"head_ms":1.500,"queue_ms":0.000,"connect_ms":0.250,"first_byte_ms":12.000,"total_ms":1234.567}` + "\n"
	if got := line(e, JSON, QueryNames); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	e.First = -1
	if got := line(e, JSON, QueryNames); !strings.Contains(got, `"first_byte_ms":null`) {
		t.Errorf("no answer: %s", got)
	}
}

func TestEntry_combined(t *testing.T) {
	t.Parallel()
	want := `203.0.113.7 - - [04/Mar/2026:05:06:07 +0000] "GET /cart;jsessionid=*/x HTTP/1.1" 200 1200 ` +
		`"https://shop.example.com/a" "agent \"x\" \\ 1.0"` + "\n"
	if got := line(sample(), Combined, QueryNone); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	empty := Entry{Time: time.Unix(0, 0).UTC(), Status: 0}
	if got, want := line(empty, Combined, QueryFull), `- - - [01/Jan/1970:00:00:00 +0000] "-" 000 - "-" "-"`+"\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAppendURL_masks(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][3]string{ // names, none, full
		"/":                           {"/", "/", "/"},
		"*":                           {"*", "*", "*"},
		"/a?":                         {"/a?", "/a", "/a?"},
		"/a?x":                        {"/a?x", "/a", "/a?x"},
		"/a?x=1&&y=&=z&w":             {"/a?x=*&&y=*&=*&w", "/a", "/a?x=1&&y=&=z&w"},
		"/a?sid=1&x=2&sid=3":          {"/a?sid=*&x=*&sid=*", "/a", "/a?sid=*&x=2&sid=*"},
		"/a?x=1=2&y=3?4":              {"/a?x=*&y=*", "/a", "/a?x=1=2&y=3?4"},
		"/a;s=1;t=2/b;u/c;v=w=x?y":    {"/a;s=*/b;u/c;v=*?y", "/a;s=*/b;u/c;v=*", "/a;s=*/b;u/c;v=*?y"},
		"/a;jsessionid=A?b;c=d":       {"/a;jsessionid=*?b;c=*", "/a;jsessionid=*", "/a;jsessionid=*?b;c=d"},
		"http://h/x;s=1?q=\"\r\n\x00": {`http://h/x;s=*?q=*`, `http://h/x;s=*`, `http://h/x;s=*?q=\"\x0d\x0a\x00`},
	} {
		for q, want := range want {
			if got := string(appendURL(nil, []byte(in), Query(q), [2]string{"sid", ""}, appendQuoted)); got != want {
				t.Errorf("%q with %d: %q, want %q", in, q, got, want)
			}
		}
	}
}

// toUTF8 is what is left of bytes in a JSON text.
func toUTF8(p []byte) string {
	var b strings.Builder
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		b.WriteRune(r)
		p = p[n:]
	}
	return b.String()
}

func FuzzEntry_json(f *testing.F) {
	f.Add([]byte("GET"), []byte("h"), []byte("/a?b=c"), []byte("ua"), "svc")
	f.Add([]byte("G\"\\\x00"), []byte("\xff\xfe\xed\xa0\x80"), []byte("/\u2028?\u2029=\x7f"), []byte("\r\n{}"), "\n\x80")
	f.Fuzz(func(t *testing.T, method, host, target, agent []byte, service string) {
		e := sample()
		e.Method, e.Host, e.Target, e.UserAgent, e.Service = method, host, target, agent, service
		text := line(e, JSON, QueryFull)
		if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "}\n") {
			t.Fatalf("not one line: %q", text)
		}
		var got struct {
			Method, Host, Target, Service string
			Agent                         string `json:"user_agent"`
			Status                        int
			Total                         float64 `json:"total_ms"`
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		if got.Method != toUTF8(method) || got.Host != toUTF8(host) || got.Agent != toUTF8(agent) || got.Service != toUTF8([]byte(service)) ||
			got.Status != 200 || got.Total != 1234.567 {
			t.Errorf("read back %+v of %q", got, text)
		}
		if !bytes.Contains(target, []byte{';'}) && got.Target != toUTF8(target) {
			t.Errorf("target %q read back as %q", target, got.Target)
		}
	})
}

var combinedLine = regexp.MustCompile(`^(\S+) - - \[([^]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-) "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"\n$`)

// unquote undoes appendQuoted.
func unquote(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			b.WriteByte(s[i])
		case s[i+1] == 'x':
			n, _ := strconv.ParseUint(s[i+2:i+4], 16, 8)
			b.WriteByte(byte(n))
			i += 3
		default:
			i++
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func FuzzEntry_combined(f *testing.F) {
	f.Add([]byte("10.0.0.1"), []byte("GET"), []byte("/a?b=c"), []byte("http://x/"), []byte("ua"))
	f.Add([]byte(" \""), []byte("G\"\\\x00"), []byte("/\xff\" 200 5 \"-\" \"-\"\n1.2.3.4 - -"), []byte("\\"), []byte("\r\n\\\""))
	f.Fuzz(func(t *testing.T, client, method, target, referer, agent []byte) {
		e := sample()
		e.Client, e.Method, e.Target, e.Referer, e.UserAgent = client, method, target, referer, agent
		text := line(e, Combined, QueryFull)
		m := combinedLine.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("does not read as a line: %q", text)
		}
		if m[4] != "200" || m[5] != "1200" {
			t.Errorf("status %s, bytes %s in %q", m[4], m[5], text)
		}
		if len(agent) > 0 && unquote(m[7]) != string(agent) {
			t.Errorf("agent %q read back as %q", agent, unquote(m[7]))
		}
		if want := string(method) + " " + string(target) + " HTTP/1.1"; len(method) > 0 && !bytes.Contains(target, []byte{';'}) && unquote(m[3]) != want {
			t.Errorf("request %q read back as %q", want, unquote(m[3]))
		}
	})
}

// FuzzAppendURL holds the mask to its purpose: what follows an equals sign in a
// query, or in a segment's parameters, is not in the log.
func FuzzAppendURL(f *testing.F) {
	for _, s := range []string{"/a?b=SECRET", "/a;b=SECRET?c", "/a;b=SECRET/c;d=SECRET?e=SECRET&f=SECRET#x", "/?=SECRET&SECRET2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		path, query, found := strings.Cut(strings.ReplaceAll(s, "SECRET", ""), "?")
		segments := strings.Split(path, "/")
		for i, segment := range segments {
			if plain, parameters, any := strings.Cut(segment, ";"); any {
				segments[i] = plain + ";" + strings.ReplaceAll(parameters, "=", "=SECRET")
			}
		}
		path = strings.Join(segments, "/")
		if found {
			path += "?" + strings.ReplaceAll(query, "=", "=SECRET")
		}
		if got := string(appendURL(nil, []byte(path), QueryNames, [2]string{}, appendQuoted)); strings.Contains(got, "=SECRET") {
			t.Errorf("%q is logged as %q", path, got)
		}
	})
}
