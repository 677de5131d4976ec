package config

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestChanges_splitsByWhatCanChange(t *testing.T) {
	t.Parallel()
	load := func(text string) Runtime {
		return mustLoad(t, Options{Paths: []string{write(t, t.TempDir(), "a.hcl", text)}, Flags: []Setting{devFlag()}}).Runtime
	}
	old := load("service \"a\" { port = 1 }\nservice \"b\" { port = 2 }\nroute \"r\" {}")
	if can, cannot := Changes(old, load("service \"a\" { port = 1 }\nservice \"b\" { port = 2 }\nroute \"r\" {}\napi { hosts = [] }")); len(can)+len(cannot) != 0 {
		t.Errorf("equal files differ: %v %v", can, cannot)
	}
	can, cannot := Changes(old, load(`log_level = "debug"
node_name = "web2"
service "b" { port = 3 }
service "c" { port = 4 }
route "r" { path = "/x" }
session {
  ttl = "1h"
  replicas = 1
}
ports { http = 9700 }`))
	if want := []string{"log_level", "route.r", "service.a", "service.b", "service.c", "session.ttl"}; !slices.Equal(can, want) {
		t.Errorf("reloadable = %v, want %v", can, want)
	}
	if want := []string{"node_name", "ports.http", "session.replicas"}; !slices.Equal(cannot, want) {
		t.Errorf("restart = %v, want %v", cannot, want)
	}
}

// The option stays what it was when the authorities in its file are replaced.
func TestChanges_seesWhatTheFileOfAuthoritiesHolds(t *testing.T) {
	t.Parallel()
	pem, err := os.ReadFile("testdata/instances.pem")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := write(t, dir, "ca.pem", string(pem))
	load := func() Runtime {
		text := "proxy { instance_ca_file = " + strconv.Quote(file) + " }"
		return mustLoad(t, Options{Paths: []string{write(t, dir, "a.hcl", text)}, Flags: []Setting{devFlag()}}).Runtime
	}
	old := load()
	if can, cannot := Changes(old, load()); len(can)+len(cannot) != 0 {
		t.Errorf("nothing has changed: %v %v", can, cannot)
	}
	write(t, dir, "ca.pem", string(pem)+string(pem))
	renewed := load()
	if can, _ := Changes(old, renewed); !slices.Equal(can, []string{"proxy.instance_ca_file"}) {
		t.Errorf("changed: %v", can)
	}
	next := Apply(old, renewed).Proxy.InstanceCA
	if next != renewed.Proxy.InstanceCA || next.Pool() == nil || old.Proxy.InstanceCA.File != file {
		t.Error("not taken over")
	}
	if shown := Masked(renewed)["proxy.instance_ca_file"]; shown != file {
		t.Errorf("shown as %v", shown)
	}
	if (Authorities{}).Pool() != nil {
		t.Error("without a file they are not the system's")
	}
}

func TestApply_takesOnlyWhatCanChange(t *testing.T) {
	t.Parallel()
	load := func(text string) Runtime {
		return mustLoad(t, Options{Paths: []string{write(t, t.TempDir(), "a.hcl", text)}, Flags: []Setting{devFlag()}}).Runtime
	}
	old := load(`service "a" { port = 1 }`)
	wanted := load("node_name = \"web2\"\nlog_level = \"debug\"\nservice \"b\" { port = 2 }\nsession {\n ttl = \"1h\"\n replicas = 0\n}")
	applied := Apply(old, wanted)
	if can, _ := Changes(applied, wanted); len(can) != 0 {
		t.Errorf("not applied: %v", can)
	}
	if _, cannot := Changes(old, applied); len(cannot) != 0 {
		t.Errorf("applied, but needs a restart: %v", cannot)
	}
	if old.Services[0].ID != "a" {
		t.Error("the old configuration was changed")
	}
}

func TestLoaded_effectiveIsCanonicalAndHidesKeys(t *testing.T) {
	t.Parallel()
	out := mustLoad(t, Options{Paths: []string{"testdata/full.hcl"}, Flags: []Setting{{"session.ttl", "90m", "-ttl"}}})
	text, err := os.ReadFile("testdata/full.hcl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	got := map[string]Effective{}
	for _, e := range out.Effective() {
		// Lines are told apart by what they say: their numbers change often.
		if n, err := strconv.Atoi(strings.TrimPrefix(e.Origin, "testdata/full.hcl:")); err == nil {
			e.Origin = strings.Join(strings.Fields(lines[n-1]), " ")
		}
		got[e.Option] = e
	}
	for option, want := range map[string]Effective{
		"session.ttl":                    {"session.ttl", `"1h30m"`, "flag -ttl"},
		"session.max_size":               {"session.max_size", `"2MiB"`, `max_size = "2MiB"`},
		"encrypt":                        {"encrypt", "(hidden)", `encrypt = "MDEyMzQ1Njc4OWFiY2RlZg=="`},
		"proxy.https":                    {"proxy.https", `""`, `https = ""`},
		"advertise":                      {"advertise", `"192.0.2.10"`, `advertise = "192.0.2.10"`},
		"retry_join":                     {"retry_join", `["10.0.0.11:9701","web2:9701","[2001:db8::1]:9701"]`, `retry_join = ["10.0.0.11", "web2:9701", "[2001:db8::1]"]`},
		"service.shop.name":              {"service.shop.name", `"store"`, `name = "store"`},
		"service.shop.check[1].interval": {"service.shop.check[1].interval", `"3s"`, `interval = "3s"`},
		"route.shop.sticky.max_age":      {"route.shop.sticky.max_age", `"24h"`, `max_age = "24h"`},
	} {
		if got[option] != want {
			t.Errorf("%s = %+v, want %+v", option, got[option], want)
		}
	}
}
