package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// testHost is a machine with one private address, so that nothing but the test
// decides.
func testHost() Host {
	return Host{Name: "web1", Addresses: []HostAddress{
		{"lo", netip.MustParseAddr("127.0.0.1")}, {"lo", netip.MustParseAddr("::1")},
		{"eth0", netip.MustParseAddr("10.0.0.5")}, {"eth0", netip.MustParseAddr("fe80::1%eth0")},
	}}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func devFlag() Setting { return Setting{Option: "dev", Value: "true", Flag: "-dev"} }

func mustLoad(t *testing.T, o Options) Loaded {
	t.Helper()
	if o.Host.Name == "" {
		o.Host = testHost()
	}
	out, err := Load(o)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return out
}

func mustFail(t *testing.T, o Options) Problems {
	t.Helper()
	if o.Host.Name == "" {
		o.Host = testHost()
	}
	_, err := Load(o)
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("load: %v, want problems", err)
	}
	return problems
}

func TestLoad_fullFileReachesRuntime(t *testing.T) {
	t.Parallel()
	r := mustLoad(t, Options{Paths: []string{"testdata/full.hcl"}}).Runtime
	if r.Node.Name != "web1" || !r.Node.Witness || r.Network.Advertise != netip.MustParseAddr("192.0.2.10") ||
		r.Network.Gossip != netip.MustParseAddrPort("10.0.0.5:9701") || r.Network.HTTP != netip.MustParseAddrPort("127.0.0.2:9700") {
		t.Errorf("node and network: %+v %+v", r.Node, r.Network)
	}
	if want := []string{"10.0.0.11:9701", "web2:9701", "[2001:db8::1]:9701"}; !slices.Equal(r.Join.Retry, want) {
		t.Errorf("retry_join = %v, want %v", r.Join.Retry, want)
	}
	if string(r.Join.Encrypt) != "0123456789abcdef" || r.Join.Profile != WAN {
		t.Errorf("join: %+v", r.Join)
	}
	if want := (Cluster{1, Refuse, Memory, 20 * time.Minute, 45 * time.Second}); r.Cluster != want {
		t.Errorf("cluster = %+v, want %+v", r.Cluster, want)
	}
	if s := r.Services[0]; s.ID != "shop" || s.Name != "store" || len(s.Checks) != 3 || s.Checks[1].Interval != 2*time.Second || s.Checks[2].TTL != 15*time.Second {
		t.Errorf("service: %+v", s)
	}
	if x := r.Routes[0]; x.Host != "*.example.com" || x.HashOn != (HashKey{"header", "X-User"}) || !x.PreferLocal || x.Retry.Idempotent || !x.Retry.Keyed || !slices.Equal(x.Retry.Statuses, []int{503}) || x.Retry.Within != 8*time.Second || x.Retry.Body != 1<<20 || x.Sticky.MaxAge != 24*time.Hour ||
		x.Sticky.LearnHeader != "x-session" || x.Sticky.LearnPath != "jsessionid" || x.Sticky.LearnQuery != "sid" || !x.Sticky.Strict {
		t.Errorf("route: %+v", x)
	}
	if r.Proxy.HTTP != netip.MustParseAddrPort("10.0.0.5:9780") || r.Redis.Address.IsValid() || r.Proxy.HTTPS.IsValid() || len(r.Proxy.TrustedProxies) != 3 {
		t.Errorf("proxy and redis: %+v %+v", r.Proxy, r.Redis)
	}
}

// TestFile_nothingForgotten fails when an option was added to a File struct and
// not to the defaults, the full example or the website.
func TestFile_nothingForgotten(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../website/content/docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/full.hcl")
	if err != nil {
		t.Fatal(err)
	}
	full, problems := decode("full.hcl", text)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	def := defaults("web1")
	def.Services = map[string]*ServiceFile{"shop": defaultService("shop")}
	def.Services["shop"].Checks = []*CheckFile{defaultCheck()}
	def.Routes = map[string]*RouteFile{"shop": defaultRoute("shop")}
	def.Proxy.Certificates = []*CertificateFile{defaultCertificate()}
	// One check cannot have all three kinds, so the three are laid over each other.
	shop := full.file.Services["shop"]
	for _, check := range shop.Checks[1:] {
		shop.Checks[0] = merge(shop.Checks[0], check)
	}
	var walk func(def, full reflect.Value, path string)
	walk = func(def, full reflect.Value, path string) {
		for _, o := range options(def.Type()) {
			name := join(path, o.name)
			if !strings.Contains(string(page), "`"+o.name+"`") {
				t.Errorf("%s: no place in website/content/docs/configuration.md", name)
			}
			d, f := def.Field(o.index), full.Field(o.index)
			if d.IsNil() || f.IsNil() {
				t.Errorf("%s: default missing %v, line in testdata/full.hcl missing %v", name, d.IsNil(), f.IsNil())
				continue
			}
			switch o.kind {
			case section:
				walk(d.Elem(), f.Elem(), name)
			case labelled:
				key := reflect.ValueOf("shop")
				walk(d.MapIndex(key).Elem(), f.MapIndex(key).Elem(), name)
			case repeated:
				walk(d.Index(0).Elem(), f.Index(0).Elem(), name)
			}
		}
	}
	walk(reflect.ValueOf(def), reflect.ValueOf(full.file), "")
}

func TestLoad_order(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := write(t, dir, "one.hcl", `data_dir = "/one"
retry_join = ["10.0.0.1", "10.0.0.2"]
session { ttl = "1m" }`)
	two := write(t, dir, "two.json", `{"data_dir": "/two", "retry_join": ["10.0.0.3"], "session": {"max_age": "2h"}}`)
	base := Options{Paths: []string{one, two}}

	r := mustLoad(t, base).Runtime
	if r.Node.DataDir != "/two" || !slices.Equal(r.Join.Retry, []string{"10.0.0.3:8701"}) || r.Session.TTL != time.Minute || r.Session.MaxAge != 2*time.Hour {
		t.Errorf("files: %+v", r)
	}
	base.Environ = []string{"RONDEL_DATA_DIR=/env", "RONDEL_RETRY_JOIN=10.0.0.4, 10.0.0.5", "RONDEL_SESSION_TTL=2m", "HOME=/root"}
	r = mustLoad(t, base).Runtime
	if r.Node.DataDir != "/env" || len(r.Join.Retry) != 2 || r.Session.TTL != 2*time.Minute {
		t.Errorf("environment: %+v", r)
	}
	base.Flags = []Setting{{"data_dir", "/flag", "-data-dir"}, {"retry_join", "a", "-retry-join"}, {"retry_join", "b,c", "-retry-join"}}
	out := mustLoad(t, base)
	if r = out.Runtime; r.Node.DataDir != "/flag" || !slices.Equal(r.Join.Retry, []string{"a:8701", "b:8701", "c:8701"}) {
		t.Errorf("flags: %+v", r)
	}
	if got := out.Origins.of("data_dir").String(); got != "flag -data-dir" {
		t.Errorf("origin of data_dir = %q", got)
	}
	if got := out.Origins.of("session.max_age").String(); got != two+":1" {
		t.Errorf("origin of session.max_age = %q", got)
	}
}

func TestLoad_blocksMergeByName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "1.hcl", `service "shop" {
  port = 1
  check { http = "/a" }
  check { tcp = ":1" }
}
service "blog" { port = 2 }`)
	write(t, dir, "2.hcl", `service "shop" {
  weight = 7
  check { http = "/b" }
}`)
	r := mustLoad(t, Options{Paths: []string{dir}, Flags: []Setting{devFlag(), {"service", "shop:8080", "-service"}, {"service", "shop:8081", "-service"}}}).Runtime
	if len(r.Services) != 3 {
		t.Fatalf("services = %+v", r.Services)
	}
	if s := r.Services[1]; s.ID != "shop" || s.Port != 8080 || s.Weight != 7 || len(s.Checks) != 1 || s.Checks[0].HTTP != "/b" {
		t.Errorf("shop = %+v", s)
	}
	if s := r.Services[2]; s.ID != "shop-8081" || s.Name != "shop" || s.Port != 8081 {
		t.Errorf("second instance = %+v", s)
	}
}

func TestLoad_directoryRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"1.hcl", "10.json", "2.hcl", "a.hcl", "B.hcl", ".x.hcl", "b.hcl~", "c.pem", "sub/d.hcl", "e.hcl.rpmsave"} {
		text := `node_name = "n-` + strings.Trim(filepath.Base(name), ".~") + `"`
		if strings.HasSuffix(name, ".json") {
			text = `{"node_name": "n-10.json"}`
		}
		write(t, dir, name, text)
	}
	out := mustLoad(t, Options{Paths: []string{dir}, Flags: []Setting{devFlag()}})
	base := func(paths []string) (names []string) {
		for _, p := range paths {
			names = append(names, filepath.Base(p))
		}
		return names
	}
	if got, want := base(out.Read), []string{"1.hcl", "10.json", "2.hcl", "B.hcl", "a.hcl"}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	if got, want := base(out.Skipped), []string{".x.hcl", "b.hcl~", "c.pem", "e.hcl.rpmsave", "sub"}; !slices.Equal(got, want) {
		t.Errorf("skipped %v, want %v", got, want)
	}
	if got := out.Runtime.Node.Name; got != "n-a.hcl" {
		t.Errorf("the last file did not win: %q", got)
	}
}

func TestLoad_explicitFileOfAnyName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"conf": "\n {\"node_name\": \"x\"}", "conf.rpmsave": `node_name = "x"`} {
		r := mustLoad(t, Options{Paths: []string{write(t, dir, name, text)}, Flags: []Setting{devFlag()}}).Runtime
		if r.Node.Name != "x" {
			t.Errorf("%s was not read", name)
		}
	}
}

func TestLoad_devIsWholeByItself(t *testing.T) {
	t.Parallel()
	r := mustLoad(t, Options{Flags: []Setting{devFlag(), {"service", "shop:8080", "-service"}}}).Runtime
	loopback := netip.MustParseAddr("127.0.0.1")
	if r.Network.Bind != loopback || r.Network.Advertise != loopback || r.Join.BootstrapExpect != 1 || r.Node.DataDir != "" || r.Proxy.HTTP.Addr() != loopback {
		t.Errorf("dev = %+v", r)
	}
}

func TestLoad_refuseOfTwoIsWarned(t *testing.T) {
	t.Parallel()
	for expect, warned := range map[string]bool{"1": false, "2": true, "3": false} {
		for mode, may := range map[string]bool{"refuse": true, "serve": false} {
			out := mustLoad(t, Options{
				Flags:   []Setting{{"data_dir", "/nowhere", "-data-dir"}, {"bind", "127.0.0.1", "-bind"}, {"bootstrap_expect", expect, "-bootstrap-expect"}, {"retry_join", "127.0.0.2", "-retry-join"}},
				Environ: []string{"RONDEL_SESSION_ON_PARTITION=" + mode},
			})
			if got := strings.Contains(out.Warnings.Error(), "while either is down"); got != (warned && may) {
				t.Errorf("%s with %s members: warnings %v", mode, expect, out.Warnings)
			}
		}
	}
}

func TestLoad_environmentUnknownIsWarned(t *testing.T) {
	t.Parallel()
	out := mustLoad(t, Options{Flags: []Setting{devFlag()}, Environ: []string{"RONDEL_SESION_TTL=1m", "RONDEL_HTTP_ADDR=x", "RONDEL_SERVICE=shop:8080,blog:8081"}})
	if len(out.Warnings) != 1 || !strings.Contains(out.Warnings.Error(), "RONDEL_SESION_TTL") {
		t.Errorf("warnings = %v", out.Warnings)
	}
	if len(out.Runtime.Services) != 2 {
		t.Errorf("services = %+v", out.Runtime.Services)
	}
}
