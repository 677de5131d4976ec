package proxyproto

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	v4 = "192.0.2.1:56324>198.51.100.2:443"
	v6 = "[2001:db8::1]:65535>[2001:db8::2]:0"
)

func said(h Header) string {
	switch {
	case h.Local:
		return "local"
	case !h.Source.IsValid():
		return "unknown"
	}
	return h.Source.String() + ">" + h.Destination.String()
}

// v2 puts a header of version 2 together, its body in hexadecimal digits.
func v2(cmd, family byte, body string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(body, " ", ""))
	if err != nil {
		panic(err)
	}
	out := append([]byte(signature), cmd, family)
	return string(append(binary.BigEndian.AppendUint16(out, uint16(len(b))), b...))
}

const ends4 = "c0000201 c6336402 dc04 01bb"

// summed adds a checksum that is right if off is 0.
func summed(off uint32) string {
	b := []byte(v2(cmdProxy, famTCP4, ends4+"ea0001ff 03000400000000 04000101"))
	at := fixed + 12 + 4 + 3
	binary.BigEndian.PutUint32(b[at:], sumWithout(b, at)+off)
	return string(b)
}

func TestRead_accepted(t *testing.T) {
	t.Parallel()
	unix := strings.Repeat("00", 216)
	for name, tc := range map[string]struct{ text, want string }{
		"v1 TCP4":              {"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", v4},
		"v1 TCP4 shortest":     {"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n", "1.1.1.1:1>2.2.2.2:2"},
		"v1 TCP4 longest":      {"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535>255.255.255.255:65535"},
		"v1 TCP6":              {"PROXY TCP6 2001:db8::1 2001:db8::2 65535 0\r\n", v6},
		"v1 TCP6 shortest":     {"PROXY TCP6 :: :: 0 0\r\n", "[::]:0>[::]:0"},
		"v1 TCP6 longest":      {"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe]:65535>[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"},
		"v1 TCP6 with v4 in":   {"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:198.51.100.2 56324 443\r\n", v4},
		"v1 UNKNOWN":           {"PROXY UNKNOWN\r\n", "unknown"},
		"v1 UNKNOWN with ends": {"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "unknown"},
		"v1 UNKNOWN longest":   {"PROXY UNKNOWN " + strings.Repeat("x", 91) + "\r\n", "unknown"},
		"v2 TCP4":              {v2(cmdProxy, famTCP4, ends4), v4},
		"v2 UDP4":              {v2(cmdProxy, famUDP4, ends4), v4},
		"v2 TCP6":              {v2(cmdProxy, famTCP6, "20010db8000000000000000000000001 20010db8000000000000000000000002 ffff 0000"), v6},
		"v2 TCP6 with v4 in":   {v2(cmdProxy, famTCP6, "00000000000000000000ffffc0000201 00000000000000000000ffffc6336402 dc04 01bb"), v4},
		"v2 Unix":              {v2(cmdProxy, famStream, unix), "unknown"},
		"v2 unspecified":       {v2(cmdProxy, famUnspec, ""), "unknown"},
		"v2 local":             {v2(cmdLocal, famUnspec, ""), "local"},
		"v2 local with ends":   {v2(cmdLocal, famTCP4, ends4), "local"},
		"v2 local with rest":   {v2(cmdLocal, 0x77, "010203"), "local"},
		"v2 fields":            {v2(cmdProxy, famTCP4, ends4+"02000568 656c6c6f 040000"), v4},
		"v2 checksum":          {summed(0), v4},
		"v2 longest":           {v2(cmdProxy, famTCP4, ends4+"ea3fe1"+strings.Repeat("00", MaxHeader-fixed-15)), v4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way, wrap := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "single bytes": iotest.OneByteReader,
			} {
				r := wrap(strings.NewReader(tc.text + "GET"))
				h, err := Read(r)
				if err != nil || said(h) != tc.want {
					t.Errorf("%s: %s, %v, want %s", way, said(h), err, tc.want)
				}
				if rest, _ := io.ReadAll(r); string(rest) != "GET" {
					t.Errorf("%s: %q is left over", way, rest)
				}
			}
		})
	}
}

func TestRead_refused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"HTTP":                 "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"TLS":                  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00",
		"HTTP/2":               "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"lower case":           "proxy TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
		"no such family":       "PROXY TCP5 1.1.1.1 2.2.2.2 1 2\r\n",
		"UDP in a line":        "PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n",
		"family run on":        "PROXY UNKNOWNS\r\n",
		"two spaces":           "PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n",
		"space at the end":     "PROXY TCP4 1.1.1.1 2.2.2.2 1 2 \r\n",
		"tab":                  "PROXY TCP4 1.1.1.1\t2.2.2.2 1 2\r\n",
		"line feed alone":      "PROXY TCP4 11.11.11.11 2.2.2.2 1 2\n",
		"return inside":        "PROXY TCP4 1.1.1.1\r2.2.2.2 1 2\r\n",
		"five fields":          "PROXY TCP4 1.1.1.1 2.2.2.2 1\r\nGET / HTTP/1.1\r\n",
		"v6 address as TCP4":   "PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n",
		"v4 address as TCP6":   "PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n",
		"leading zero":         "PROXY TCP4 01.1.1.1 2.2.2.2 1 2\r\n",
		"port too large":       "PROXY TCP4 1.1.1.1 2.2.2.2 65536 2\r\n",
		"port with zero":       "PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n",
		"port signed":          "PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n",
		"port missing":         "PROXY TCP4 1.1.1.1 2.2.2.2  2\r\n",
		"zone":                 "PROXY TCP6 fe80::1%eth0 fe80::2 1 2\r\n",
		"host name":            "PROXY TCP4 localhost 2.2.2.2 1 2\r\n",
		"never ends":           "PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n",
		"never ends, TCP6":     "PROXY TCP6 " + strings.Repeat("0", 200) + "\r\n",
		"v2 version 1":         v2(0x11, famTCP4, ends4),
		"v2 version 3":         v2(0x31, famTCP4, ends4),
		"v2 command":           v2(0x22, famTCP4, ends4),
		"v2 family":            v2(cmdProxy, 0x41, ends4),
		"v2 transport":         v2(cmdProxy, 0x13, ends4),
		"v2 addresses short":   v2(cmdProxy, famTCP6, ends4),
		"v2 Unix short":        v2(cmdProxy, famStream, ends4),
		"v2 field head short":  v2(cmdProxy, famTCP4, ends4+"0400"),
		"v2 field body short":  v2(cmdProxy, famTCP4, ends4+"04000201"),
		"v2 checksum wrong":    summed(1),
		"v2 checksum length":   v2(cmdProxy, famTCP4, ends4+"03000200 00"+"00"),
		"v2 longer than bound": v2(cmdProxy, famTCP4, ends4+"ea3fe2"+strings.Repeat("00", MaxHeader-fixed-14)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if h, err := Read(strings.NewReader(text + "GET / HTTP/1.1\r\n\r\n")); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s, %v", said(h), err)
			}
		})
	}
}

func TestRead_cutShort(t *testing.T) {
	t.Parallel()
	for _, whole := range []string{"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", "PROXY UNKNOWN\r\n", summed(0)} {
		for n := range len(whole) {
			want := io.ErrUnexpectedEOF
			if n == 0 {
				want = io.EOF
			}
			if h, err := Read(strings.NewReader(whole[:n])); !errors.Is(err, want) {
				t.Errorf("%q: %s, %v", whole[:n], said(h), err)
			}
		}
	}
}

func TestVersion_Append(t *testing.T) {
	t.Parallel()
	at := netip.MustParseAddrPort
	four := Header{Source: at("192.0.2.1:56324"), Destination: at("198.51.100.2:443")}
	for name, tc := range map[string]struct {
		h    Header
		line string
		v2   string
	}{
		"v4":      {four, "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", v2(cmdProxy, famTCP4, ends4)},
		"v4 as 6": {Header{Source: at("[::ffff:192.0.2.1]:56324"), Destination: four.Destination}, "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", v2(cmdProxy, famTCP4, ends4)},
		"v6":      {Header{Source: at("[2001:db8::1%eth0]:1"), Destination: at("[::1]:2")}, "PROXY TCP6 2001:db8::1 ::1 1 2\r\n", v2(cmdProxy, famTCP6, "20010db8000000000000000000000001 00000000000000000000000000000001 0001 0002")},
		"mixed":   {Header{Source: at("192.0.2.1:1"), Destination: at("[::1]:2")}, "PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", v2(cmdProxy, famTCP6, "00000000000000000000ffffc0000201 00000000000000000000000000000001 0001 0002")},
		"unknown": {Header{}, "PROXY UNKNOWN\r\n", v2(cmdProxy, famUnspec, "")},
		"half":    {Header{Source: at("192.0.2.1:1")}, "PROXY UNKNOWN\r\n", v2(cmdProxy, famUnspec, "")},
		"local":   {Header{Local: true, Source: at("192.0.2.1:1"), Destination: at("192.0.2.1:1")}, "PROXY UNKNOWN\r\n", v2(cmdLocal, famUnspec, "")},
	} {
		if got := string(V1.Append([]byte("x"), tc.h)); got != "x"+tc.line {
			t.Errorf("%s: %q", name, got)
		}
		if got := string(V2.Append([]byte("x"), tc.h)); got != "x"+tc.v2 {
			t.Errorf("%s: %x", name, got)
		}
	}
}

func TestRead_readsWhatAppendWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{4, 16}).Draw(t, "size")
		one := func(name string) netip.AddrPort {
			a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, name))
			return netip.AddrPortFrom(a.Unmap(), rapid.Uint16().Draw(t, name+" port"))
		}
		h := Header{Source: one("source"), Destination: one("destination")}
		for _, v := range []Version{V1, V2} {
			b := v.Append(nil, h)
			if got, err := Read(bytes.NewReader(b)); err != nil || got != h {
				t.Errorf("version %d of %v reads %v, %v", v, h, got, err)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\nGET"))
	f.Add([]byte("PROXY TCP6 :: :: 0 0\r\n"))
	f.Add([]byte("PROXY UNKNOWN x\r\n"))
	f.Add([]byte(summed(0)))
	f.Add([]byte(v2(cmdLocal, famUnspec, "")))
	f.Add([]byte(v2(cmdProxy, famStream, strings.Repeat("61", 216))))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		h, err := Read(r)
		if err != nil {
			if h != (Header{}) {
				t.Errorf("%v beside the error %v", h, err)
			}
			return
		}
		taken := b[:len(b)-r.Len()]
		if len(taken) > MaxHeader {
			t.Errorf("took %d bytes", len(taken))
		}
		if taken[0] == 'P' && !(bytes.HasSuffix(taken, []byte("\r\n")) && bytes.Count(taken, []byte("\n")) == 1) {
			t.Errorf("took %q", taken)
		}
		if taken[0] == '\r' && len(taken) != fixed+int(binary.BigEndian.Uint16(taken[14:])) {
			t.Errorf("took %d bytes", len(taken))
		}
		// What it says reads the same when we say it.
		for _, v := range []Version{V1, V2} {
			again, err := Read(bytes.NewReader(v.Append(nil, h)))
			if v == V1 {
				h.Local = false
			}
			if err != nil || again.Source != h.Source || again.Destination != h.Destination {
				t.Errorf("%v is %v when said again, %v", h, again, err)
			}
		}
	})
}
