package proxy

import (
	"io"
	"strings"
	"testing"
)

const canary = "GET /canary HTTP/1.1\r\nHost: x\r\n\r\n"

func post(fields, body string) string {
	return "POST /p HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" + body
}

const (
	chunkedField = "Transfer-Encoding: chunked\r\n"
	hello        = "5\r\nhello\r\n0\r\n\r\n"
	saw          = "POST /p hello" // what the app is to see
)

// smuggled are requests that careless readers take for something else. Each is
// refused with a status, or else the app sees what is said here and nothing more.
var smuggled = map[string]struct {
	text   string
	status int
	saw    string
}{
	"sized":                   {post("Content-Length: 5\r\n", "hello"), 200, saw},
	"same length twice":       {post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 200, saw},
	"same length, two forms":  {post("Content-Length: 5\r\nContent-Length: 05\r\n", "hello"), 400, ""},
	"leading zeros":           {post("Content-Length: 005\r\n", "hello"), 200, saw},
	"folded lengths":          {post("Content-Length: 5, 5\r\n", "hello"), 400, ""},
	"two lengths":             {post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), 400, ""},
	"two lengths, list":       {post("Content-Length: 5,6\r\n", "hello"), 400, ""},
	"length and chunked":      {post("Content-Length: 5\r\n"+chunkedField, "0\r\n\r\n"), 400, ""},
	"chunked and length":      {post(chunkedField+"Content-Length: 5\r\n", "0\r\n\r\n"), 400, ""},
	"length 0 and chunked":    {post("Content-Length: 0\r\n"+chunkedField, hello), 400, ""},
	"bad length, chunked":     {post("Content-Length: x\r\n"+chunkedField, "0\r\n\r\n"), 400, ""},
	"chunked":                 {post(chunkedField, hello), 200, saw},
	"chunked, tab before":     {post("Transfer-Encoding:\tchunked\r\n", hello), 200, saw},
	"chunked, tab after":      {post("Transfer-Encoding: chunked\t\r\n", hello), 200, saw},
	"chunked, other case":     {post("transfer-encoding: Chunked\r\n", hello), 200, saw},
	"chunked, no space":       {post("Transfer-Encoding:chunked\r\n", hello), 200, saw},
	"xchunked":                {post("Transfer-Encoding: xchunked\r\n", hello), 400, ""},
	"chunkedx":                {post("Transfer-Encoding: chunked1\r\n", hello), 400, ""},
	"quoted":                  {post("Transfer-Encoding: \"chunked\"\r\n", hello), 400, ""},
	"with a parameter":        {post("Transfer-Encoding: chunked;q=1\r\n", hello), 400, ""},
	"identity":                {post("Transfer-Encoding: identity\r\nContent-Length: 5\r\n", "hello"), 400, ""},
	"chunked, identity":       {post("Transfer-Encoding: chunked, identity\r\n", hello), 400, ""},
	"gzip, chunked":           {post("Transfer-Encoding: gzip, chunked\r\n", hello), 501, ""},
	"chunked, chunked":        {post("Transfer-Encoding: chunked, chunked\r\n", hello), 501, ""},
	"comma, chunked":          {post("Transfer-Encoding: , chunked\r\n", hello), 501, ""},
	"chunked, comma":          {post("Transfer-Encoding: chunked,\r\n", hello), 400, ""},
	"two codings":             {post(chunkedField+chunkedField, hello), 501, ""},
	"empty coding":            {post("Transfer-Encoding:\r\n", hello), 400, ""},
	"empty coding, chunked":   {post("Transfer-Encoding:\r\n"+chunkedField, hello), 501, ""},
	"control in coding":       {post("Transfer-Encoding: \x0bchunked\r\n", hello), 400, ""},
	"no-break space":          {post("Transfer-Encoding: chunked\xa0\r\n", hello), 400, ""},
	"space before colon":      {post("Content-Length : 5\r\n", "hello"), 400, ""},
	"coding, space, colon":    {post("Transfer-Encoding : chunked\r\n", hello), 400, ""},
	"tab before colon":        {post("Transfer-Encoding\t: chunked\r\n", hello), 400, ""},
	"plus":                    {post("Content-Length: +5\r\n", "hello"), 400, ""},
	"minus":                   {post("Content-Length: -5\r\n", "hello"), 400, ""},
	"hexadecimal":             {post("Content-Length: 0x5\r\n", "hello"), 400, ""},
	"underscore":              {post("Content-Length: 5_0\r\n", "hello"), 400, ""},
	"exponent":                {post("Content-Length: 1e1\r\n", "hello"), 400, ""},
	"fraction":                {post("Content-Length: 5.0\r\n", "hello"), 400, ""},
	"two words":               {post("Content-Length: 5 5\r\n", "hello"), 400, ""},
	"semicolon":               {post("Content-Length: 5;\r\n", "hello"), 400, ""},
	"other digits":            {post("Content-Length: \xd9\xa5\r\n", "hello"), 400, ""},
	"huge":                    {post("Content-Length: 99999999999999999999999\r\n", "hello"), 400, ""},
	"2^64 + 5":                {post("Content-Length: 18446744073709551621\r\n", "hello"), 400, ""},
	"empty length":            {post("Content-Length:\r\n", "hello"), 400, ""},
	"folded line":             {post("X: a\r\n b\r\n", ""), 400, ""},
	"folded with a tab":       {post("X: a\r\n\tb\r\n", ""), 400, ""},
	"folded length":           {post("Content-Length:\r\n 5\r\n", "hello"), 400, ""},
	"folded coding":           {post("Transfer-Encoding:\r\n chunked\r\n", hello), 400, ""},
	"folded away":             {post("X: a\r\n "+chunkedField, hello), 400, ""},
	"bare line feeds":         {"POST /p HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello", 400, ""},
	"one bare line feed":      {post("X: a\nContent-Length: 5\r\n", "hello"), 400, ""},
	"end by bare line feed":   {"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\nhello", 400, ""},
	"bare CR":                 {post("X: a\rContent-Length: 5\r\n", "hello"), 400, ""},
	"CR CR LF":                {post("X: a\r\r\n", ""), 400, ""},
	"line of a CR":            {post("\r\r\n", ""), 400, ""},
	"NUL":                     {post("X: a\x00b\r\n", ""), 400, ""},
	"NUL in a name":           {post("X\x00: a\r\n", ""), 400, ""},
	"DEL":                     {post("X: a\x7f\r\n", ""), 400, ""},
	"no name":                 {post(": a\r\n", ""), 400, ""},
	"no colon":                {post("abc\r\n", ""), 400, ""},
	"name in brackets":        {post("X(a): b\r\n", ""), 400, ""},
	"name beyond ASCII":       {post("Transfer-Encod\xc4\xb1ng: chunked\r\n", hello), 400, ""},
	"leading space":           {"POST /p HTTP/1.1\r\n Host: x\r\n\r\n", 400, ""},
	"coding by underscore":    {post("Transfer_Encoding: chunked\r\nContent-Length: 5\r\n", "hello"), 200, saw},
	"length by underscore":    {post("Content_Length: 100\r\nContent-Length: 5\r\n", "hello"), 200, saw},
	"hidden by Connection":    {post("Connection: Content-Length\r\nContent-Length: 5\r\n", "hello"), 200, saw},
	"coding by Connection":    {post("Connection: Transfer-Encoding\r\n"+chunkedField, hello), 200, saw},
	"host by Connection":      {post("Connection: Host\r\nContent-Length: 5\r\n", "hello"), 200, saw},
	"chunk extension":         {post(chunkedField, "5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n"), 200, saw},
	"empty extension":         {post(chunkedField, "5;\r\nhello\r\n0;\r\n\r\n"), 200, saw},
	"CR in extension":         {post(chunkedField, "5;a=\rb\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"LF in extension":         {post(chunkedField, "5;a=\nb\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"quoted end of line":      {post(chunkedField, "5;a=\"\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n"), 400, ""},
	"NUL in extension":        {post(chunkedField, "5;\x00\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"leading zeros in size":   {post(chunkedField, "0005\r\nhello\r\n000\r\n\r\n"), 200, saw},
	"size in capitals":        {post(chunkedField, "A\r\nhellohello\r\n0\r\n\r\n"), 200, "POST /p hellohello"},
	"bare LF after size":      {post(chunkedField, "5\nhello\r\n0\r\n\r\n"), 400, ""},
	"bare CR after size":      {post(chunkedField, "5\rhello\r\n0\r\n\r\n"), 400, ""},
	"no CRLF after data":      {post(chunkedField, "5\r\nhelloX0\r\n\r\n"), 400, ""},
	"LF after data":           {post(chunkedField, "5\r\nhello\n0\r\n\r\n"), 400, ""},
	"size with sign":          {post(chunkedField, "+5\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"negative size":           {post(chunkedField, "-5\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"size with prefix":        {post(chunkedField, "0x5\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"size with underscore":    {post(chunkedField, "0_5\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"size too long":           {post(chunkedField, "00000000000000005\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"size over 64 bits":       {post(chunkedField, "10000000000000005\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"size of all bits":        {post(chunkedField, "ffffffffffffffff\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"no size":                 {post(chunkedField, "\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"only an extension":       {post(chunkedField, ";a\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"space before size":       {post(chunkedField, " 5\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"space after size":        {post(chunkedField, "5 \r\nhello\r\n0\r\n\r\n"), 400, ""},
	"space before extension":  {post(chunkedField, "5 ;a\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"tab after size":          {post(chunkedField, "5\t\r\nhello\r\n0\r\n\r\n"), 400, ""},
	"a request as data":       {post(chunkedField, "24\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n\r\n0\r\n\r\n"), 200, "POST /p 0\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n"},
	"a request in data":       {post("Content-Length: 33\r\n", "GET /evil HTTP/1.1\r\nHost: evil\r\n\r"), 200, "POST /p GET /evil HTTP/1.1\r\nHost: evil\r\n\r"},
	"trailer":                 {post(chunkedField, "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"), 200, saw},
	"length in trailers":      {post(chunkedField, "5\r\nhello\r\n0\r\nContent-Length: 50\r\nHost: evil\r\nTransfer-Encoding: x\r\n\r\n"), 200, saw},
	"trailer, bare LF":        {post(chunkedField, "0\r\nX-Sum: 1\n\r\n"), 400, ""},
	"trailer, folded":         {post(chunkedField, "0\r\nX-Sum: 1\r\n 2\r\n\r\n"), 400, ""},
	"trailer, no name":        {post(chunkedField, "0\r\nGET /canary HTTP/1.1\r\n\r\n"), 400, ""},
	"chunked in HTTP/1.0":     {"POST /p HTTP/1.0\r\nHost: x\r\n" + chunkedField + "\r\n" + hello, 400, ""},
	"HTTP/2.0":                {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 505, ""},
	"HTTP/3.0":                {"GET /p HTTP/3.0\r\nHost: x\r\n\r\n", 505, ""},
	"HTTP/0.9":                {"GET /p\r\n\r\n", 400, ""},
	"HTTP/1.2":                {"GET /p HTTP/1.2\r\nHost: x\r\n\r\n", 200, "GET /p "},
	"HTTP/1.10":               {"GET /p HTTP/1.10\r\nHost: x\r\n\r\n", 400, ""},
	"HTTP/01.1":               {"GET /p HTTP/01.1\r\nHost: x\r\n\r\n", 400, ""},
	"version, lower case":     {"GET /p http/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"space after version":     {"GET /p HTTP/1.1 \r\nHost: x\r\n\r\n", 400, ""},
	"method in lower case":    {"get /p HTTP/1.1\r\nHost: x\r\n\r\n", 200, "get /p "},
	"method of its own":       {"M-SEARCH /p HTTP/1.1\r\nHost: x\r\n\r\n", 200, "M-SEARCH /p "},
	"method with a bracket":   {"GET(x) /p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"NUL in method":           {"GE\x00T /p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"no method":               {" /p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"two spaces":              {"GET  /p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"tab for a space":         {"GET\t/p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"space in target":         {"GET /p q HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"tab in target":           {"GET /p\tq HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"NUL in target":           {"GET /p\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"CR in target":            {"GET /p\rX:y HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"line in target":          {"GET /p\r\nX: y HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"escaped line in target":  {"GET /p%0d%0aX:%20y HTTP/1.1\r\nHost: x\r\n\r\n", 200, "GET /p%0d%0aX:%20y "},
	"fragment":                {"GET /p#q HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"no slash":                {"GET p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"asterisk":                {"GET * HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"authority":               {"GET example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"CONNECT":                 {"CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", 501, ""},
	"absolute":                {"GET http://x/p HTTP/1.1\r\nHost: x\r\n\r\n", 200, "GET /p "},
	"absolute, other host":    {"GET http://other/p HTTP/1.1\r\nHost: x\r\n\r\n", 200, "GET /p @other "},
	"absolute, no host":       {"GET http://x/p HTTP/1.1\r\n\r\n", 400, ""},
	"absolute, bad Host":      {"GET http://x/p HTTP/1.1\r\nHost: a b\r\n\r\n", 400, ""},
	"absolute, user":          {"GET http://u@x/p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"absolute, no authority":  {"GET http:///p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"absolute, other scheme":  {"GET ftp://x/p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"no host":                 {"GET /p HTTP/1.1\r\n\r\n", 400, ""},
	"two hosts":               {"GET /p HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400, ""},
	"the same host twice":     {"GET /p HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400, ""},
	"host, space, colon":      {"GET /p HTTP/1.1\r\nHost : x\r\n\r\n", 400, ""},
	"NUL in host":             {"GET /p HTTP/1.1\r\nHost: x\x00y\r\n\r\n", 400, ""},
	"space in host":           {"GET /p HTTP/1.1\r\nHost: x y\r\n\r\n", 400, ""},
	"path in host":            {"GET /p HTTP/1.1\r\nHost: x/y\r\n\r\n", 400, ""},
	"user in host":            {"GET /p HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, ""},
	"port out of range":       {"GET /p HTTP/1.1\r\nHost: [::1]:99999\r\n\r\n", 400, ""},
	"no end of literal":       {"GET /p HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, ""},
	"empty lines before":      {"\r\n\r\nGET /p HTTP/1.1\r\nHost: x\r\n\r\n", 200, "GET /p "},
	"bare line feed before":   {"\nGET /p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"many empty lines before": {"\r\n\r\n\r\n\r\n\r\n\r\nGET /p HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""},
	"12,000 fields":           {"GET /p HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 12000) + "\r\n", 431, ""},
}

// Nobody is to see another message than the proxy saw.
func TestCase_D01_oneReadingOfEveryRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range smuggled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := &recorder{}
			a := startApp(t, "a1", rec.handle)
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.put(t, strings.NewReader(tc.text+canary))
			resp, _ := read(t, br, "POST")
			if resp.StatusCode != tc.status {
				t.Fatalf("status %d, want %d", resp.StatusCode, tc.status)
			}
			if tc.status != 200 {
				if rest, _ := io.ReadAll(br); len(rest) > 0 || !resp.Close {
					t.Errorf("close %v, then %q", resp.Close, rest)
				}
				if seen := rec.all(); len(seen) > 0 {
					t.Errorf("the app saw %q", seen)
				}
				return
			}
			if resp, _ := read(t, br, "GET"); resp.StatusCode != 200 {
				t.Errorf("canary: %d", resp.StatusCode)
			}
			nc.Close()
			want, host := tc.saw, "x"
			if line, rest, ok := strings.Cut(want, "@"); ok {
				want, host = line, strings.TrimSpace(rest)
			}
			if got := rec.all(); len(got) != 2 || got[0] != want || got[1] != "GET /canary " {
				t.Errorf("the app saw %q", got)
			}
			if rec.hosts[0] != host {
				t.Errorf("the app saw the host %q", rec.hosts[0])
			}
			for _, head := range rec.heads {
				lower := strings.ToLower(strings.ReplaceAll(head, "_", "-"))
				if n := strings.Count(lower, "\ncontent-length:") + strings.Count(lower, "\ntransfer-encoding:"); n > 1 {
					t.Errorf("%d framing fields in %q", n, head)
				}
			}
		})
	}
}

// What follows a good request is looked at as closely.
func TestCase_D01_garbageBehindARequest(t *testing.T) {
	t.Parallel()
	for name, garbage := range map[string]string{
		"bytes":         "\x00\x01\x02\x03\r\n\r\n",
		"a TLS hello":   "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n",
		"half a line":   "GET /evil",
		"a bad request": "GET /evil HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"a body's rest": "abcGET /evil\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := &recorder{}
			a := startApp(t, "a1", rec.handle)
			r := startRig(t, setup{apps: []Instance{instanceOf(a, "m1")}})
			nc, br := r.send(t, canary+garbage)
			if resp, body := read(t, br, "GET"); resp.StatusCode != 200 || body != "ok" {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
			if name == "half a line" {
				nc.Close()
				r.idle(t)
			} else {
				if resp, _ := read(t, br, "GET"); resp.StatusCode != 400 || !resp.Close {
					t.Errorf("then %d, close %v", resp.StatusCode, resp.Close)
				}
				if rest, _ := io.ReadAll(br); len(rest) > 0 {
					t.Errorf("then %q", rest)
				}
			}
			if seen := rec.all(); len(seen) != 1 {
				t.Errorf("the app saw %q", seen)
			}
		})
	}
}

// A body that turns out broken when part of it has left ends the app's request.
func TestCase_D01_brokenChunksEndTheAppsRequest(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	r, _ := one(t, readsOne(ended))
	nc, br := r.send(t, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	eventually(t, "the request begun", func() bool { return r.Totals().InFlight == 1 })
	io.WriteString(nc, "zz\r\n")
	if resp, _ := read(t, br, "POST"); resp.StatusCode != 400 || !resp.Close {
		t.Errorf("status %d", resp.StatusCode)
	}
	if err := <-ended; err == nil {
		t.Error("the app took the body for whole")
	}
}
