package gossip

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/gossip/gossiptest"
	"github.com/rondel-project/rondel/agent/member"
)

type writer []byte

func (w *writer) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }

func (w *writer) Read(p []byte) (int, error) {
	if len(*w) == 0 {
		return 0, io.EOF
	}
	n := copy(p, *w)
	*w = (*w)[n:]
	return n, nil
}

func mustAddr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestQuiet_firstThenSummary(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	q := newQuiet(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info}))
	now := time.Unix(1000, 0)
	q.now = func() time.Time { return now }
	lib := libraryLog{q}
	for range 300 {
		now = now.Add(time.Second)
		io.WriteString(lib, "[ERR] memberlist: Push/Pull with m2 failed: dial tcp 10.0.0.1:41"+now.Format("05")+": refused\n")
		io.WriteString(lib, "[WARN] memberlist: Was able to connect to m3 over TCP but UDP probes failed, network may be misconfigured\n")
		io.WriteString(lib, "[INFO] memberlist: Suspect m2 has failed, no acks received\n")
		if now.Second() == 0 {
			q.summarize()
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) > 8 || len(lines) < 6 {
		t.Fatalf("%d lines in five minutes:\n%s", len(lines), out.String())
	}
	if !strings.Contains(out.String(), "is udp blocked between the two: member=m3") || !strings.Contains(lines[3], "times=120") {
		t.Fatal(out.String())
	}
	q.settle("udp m3")
	io.WriteString(lib, "[WARN] memberlist: Was able to connect to m3 over TCP but UDP probes failed, network may be misconfigured\n")
	if strings.Count(out.String(), "\n") != len(lines)+1 {
		t.Fatal("a fault that came back was not told")
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	a := kindOf("Failed to receive: EOF from=10.0.0.1:41234 after 12 tries")
	b := kindOf("Failed to receive: EOF from=10.0.0.1:5 after 3 tries")
	c := kindOf("Failed to receive: EOF from=10.0.0.2:5 after 3 tries")
	if a != b || a == c {
		t.Fatal(a, b, c)
	}
}

func TestSplitAddr(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"host": "host 8701", "host:99": "host 99", "10.0.0.1": "10.0.0.1 8701", "10.0.0.1:5": "10.0.0.1 5",
		"::1": "::1 8701", "[::1]": "::1 8701", "[::1]:5": "::1 5", "a.b.c": "a.b.c 8701",
		"": "", "host:": "", "host:0": "", "host:x": "", "a:b:c": "", ":5": "", "host:70000": "",
	} {
		host, port, err := splitAddr(text, 8701)
		got := ""
		if err == nil {
			got = host + " " + itoa(port)
		}
		if got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func itoa(n uint16) string {
	return netip.AddrPortFrom(netip.IPv4Unspecified(), n).String()[len("0.0.0.0:"):]
}

type names map[string][]netip.Addr

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if a, ok := n[host]; ok {
		return a, nil
	}
	return nil, errors.New("no such host")
}

func testOptions(name, addr string) Options {
	return Options{
		Name: name, Meta: member.Meta{ID: member.NewID(), Boot: member.NewBoot()},
		Transport: gossiptest.NewNetwork().Transport(mustAddr(addr)),
	}
}

func TestResolve_everyAddressButOurOwn(t *testing.T) {
	t.Parallel()
	o := testOptions("a", "10.0.0.1:8701")
	o.Resolver = names{"seeds": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("::ffff:10.0.0.3"), netip.MustParseAddr("2001:db8::1")}}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	got, errs := g.resolve(t.Context(), []string{"seeds", "10.0.0.2, nosuch", "[::1]:9", "fe80::1%eth0"})
	var texts []string
	for _, a := range got {
		texts = append(texts, a.String())
	}
	if s := strings.Join(texts, " "); s != "10.0.0.2:8701 10.0.0.3:8701 [2001:db8::1]:8701 [::1]:9" {
		t.Error(s)
	}
	if len(errs) != 2 || !strings.Contains(errs[0].Error(), `join "nosuch": no such host`) || !strings.Contains(errs[1].Error(), "zone") {
		t.Error(errs)
	}
}

func TestParseKeys_faults(t *testing.T) {
	t.Parallel()
	secret := "c2VjcmV0"
	for _, tc := range []struct{ key, want string }{
		{"?", "not base64"}, {secret, "has 6 bytes: must have 16, 24 or 32"}, {"", "has 0 bytes"},
	} {
		_, err := ParseKeys([]string{"MDEyMzQ1Njc4OWFiY2RlZg==", tc.key})
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "key 2 of 2") {
			t.Errorf("%q: %v", tc.key, err)
		}
		if tc.key == secret && strings.Contains(err.Error(), secret) {
			t.Error("the key is in the error")
		}
	}
}

func TestNew_faults(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Name: "a b", Profile: "moon", Bind: mustAddr("0.0.0.0:0")})
	for _, want := range []string{`node name "a b"`, "member id", "boot id", "wildcard", `profile "moon"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}

func TestPeers_file(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, peersFile)
	for _, broken := range []string{"", "{", `{"Peers":[{"Addr":"x"}]}`, `{"Peers":[{}]}`, "\x00"} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		o := testOptions("a", "10.0.0.1:8701")
		o.DataDir, o.Log = dir, hclog.New(&hclog.LoggerOptions{Output: &out})
		g, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		g.Close()
		if len(g.peers) != 0 || !strings.Contains(out.String(), path) {
			t.Errorf("%q: %s", broken, out.String())
		}
	}
	o := testOptions("a", "10.0.0.1:8701")
	o.DataDir = dir
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.mu.Lock()
	g.list.here("b", mustAddr("10.0.0.2:8701"), member.Meta{ID: member.NewID(), Boot: member.NewBoot()}, time.Now())
	g.mu.Unlock()
	g.savePeers()
	again, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if p := again.peers[mustAddr("10.0.0.2:8701")]; p.Name != "b" {
		t.Errorf("%+v", again.peers)
	}
}
