package config

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// TestLoad_sameVerdictEverywhere holds every duration and size option to one
// table, written in HCL, in JSON, as a flag and in the environment.
func TestLoad_sameVerdictEverywhere(t *testing.T) {
	t.Parallel()
	const unit = "add a unit"
	// bare marks values that files can write without quotes; they mean the same
	// text in a flag.
	type verdict struct {
		bare bool
		text string
		rule string // part of the problem; empty: accepted
	}
	durations := []verdict{
		{false, "30s", ""}, {false, "1m30s", ""}, {true, "30", unit}, {false, "30", unit}, {true, "1e9", unit}, {false, "1e9", unit},
		{false, "30 s", "not a duration"}, {false, "1d", "not a duration"}, {false, "", "empty"}, {false, "NaN", "not a duration"},
		{false, "-1s", "negative"}, {false, "999999h", "at most"}, {true, "true", "not a duration"},
	}
	sizes := []verdict{
		{false, "1MiB", ""}, {true, "1048576", unit}, {false, "1048576", unit}, {false, "1 MiB", "not a size"}, {false, "", "empty"},
		{false, "-1B", "negative"}, {false, "9999TiB", "at most"}, {true, "true", "not a size"},
	}
	for option, verdicts := range map[string][]verdict{
		"session.ttl": durations, "session.max_age": durations, "ring.reap_after": durations, "ring.stall_timeout": durations, "session.max_size": sizes,
	} {
		section, name, _ := strings.Cut(option, ".")
		for _, v := range verdicts {
			literal := strconv.Quote(v.text)
			if v.bare {
				literal = v.text
			}
			// The other end of the pair must not decide.
			rest := ""
			if option == "session.max_age" {
				rest = `ttl = "10s"`
			}
			dir := t.TempDir()
			ways := map[string]Options{
				"HCL":         {Paths: []string{write(t, dir, "a.hcl", fmt.Sprintf("%s {\n %s = %s\n %s\n}", section, name, literal, rest))}},
				"JSON":        {Paths: []string{write(t, dir, "a.json", fmt.Sprintf(`{"%s":{"%s":%s}}`, section, name, literal))}},
				"flag":        {Flags: []Setting{{option, v.text, "-x"}}},
				"environment": {Environ: []string{EnvName(option) + "=" + v.text}},
			}
			for way, o := range ways {
				o.Host = testHost()
				o.Flags = append(o.Flags, devFlag())
				if rest != "" && way != "HCL" {
					o.Flags = append(o.Flags, Setting{"session.ttl", "10s", "-ttl"})
				}
				_, err := Load(o)
				switch {
				case v.rule == "" && err != nil:
					t.Errorf("%s %s = %s: refused: %v", way, option, literal, err)
				case v.rule != "" && (err == nil || !strings.Contains(err.Error(), v.rule)):
					t.Errorf("%s %s = %s: %v, want a problem with %q", way, option, literal, err, v.rule)
				}
			}
		}
	}
}

func TestLoad_nullIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"a.hcl": "session {\n ttl = null\n}", "a.json": "{\"session\":{\n\"ttl\":null}}"} {
		problems := mustFail(t, Options{Paths: []string{write(t, t.TempDir(), name, text)}, Flags: []Setting{devFlag()}})
		if len(problems) != 1 || problems[0].At.Line != 2 || !strings.Contains(problems[0].Rule, "null") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestLoad_reportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hcl := write(t, dir, "a.hcl", `data_dir = "/tmp/x"
sesion { ttl = "1m" }
session {
  ttl = 30
  tttl = "1m"
  max_size = "1PB"
}
bootstrap_expect = "many"
route "shop" {
  balance = "roundrobin"
  sticky {
    cookie = "a b"
  }
}
proxy { trusted_proxies = ["10.0.0.0/33"] }
encrypt = "c2hvcnQ="`)
	json := write(t, dir, "b.json", `{
  "redis": {"address": "8703"},
  "service": {"shop": {"port": 99999}}
}`)
	broken := write(t, dir, "c.hcl", "node_name = \n")
	problems := mustFail(t, Options{
		Paths:   []string{hcl, json, broken, dir + "/none.hcl"},
		Flags:   []Setting{{"profile", "moon", "-profile"}},
		Environ: []string{"RONDEL_LOG_JSON=perhaps"},
	})
	text := problems.Error()
	for _, want := range []string{
		hcl + ":2: sesion: Unsupported block type",
		hcl + `:4: session.ttl = 30: add a unit`,
		hcl + ":5: session.tttl: Unsupported argument",
		hcl + `:6: session.max_size = "1PB": malformed: not a size`,
		hcl + `:8: bootstrap_expect = "many": must be a whole number`,
		hcl + `:10: route.shop.balance = "roundrobin": must be "round_robin"`,
		hcl + `:12: route.shop.sticky.cookie = "a b": must be a cookie name`,
		hcl + `:15: proxy.trusted_proxies = "10.0.0.0/33": must be an address`,
		hcl + `:16: encrypt = (hidden): must be 16, 24 or 32 bytes`,
		json + `:2: redis.address = "8703": must be ":PORT"`,
		json + `:3: service.shop.port = 99999: must be between`,
		broken + ":1: ",
		dir + "/none.hcl: cannot be read: no such file",
		`flag -profile: profile = "moon": must be "lan", "wan" or "local"`,
		`environment RONDEL_LOG_JSON: log_json = "perhaps": must be true or false`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line with %q", want)
		}
	}
	if t.Failed() {
		t.Logf("problems:\n%s", text)
	}
	if strings.Contains(text, "c2hvcnQ") {
		t.Error("the gossip key is shown")
	}
}

func TestLoad_blockTwiceInOneFile(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "a.hcl", "session {}\nservice \"a\" { port = 1 }\nsession {}\nservice \"a\" { port = 2 }")
	problems := mustFail(t, Options{Paths: []string{path}, Flags: []Setting{devFlag()}})
	if len(problems) != 2 || problems[0].At.Line != 3 || problems[1].At.Line != 4 {
		t.Errorf("problems = %v", problems)
	}
}

func TestRoute_rules(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``:                 "",
		`balance = "hash"`: "route.shop.hash_on",
		`hash_on = "path"`: "has no effect",
		"balance = \"hash\"\nhash_on = \"header:a b\"": "must be header:NAME",
		"balance = \"hash\"\nhash_on = \"client_ip\"":  "",
		"balance = \"hash\"\nhash_on = \"sessions\"":   "must be header:NAME",
		`hash_fallback = "hash"`:                       `must be "round_robin"`,
		`hash_balance_factor = 100`:                    "between 101 and 1000",
		`hash_balance_factor = 0`:                      "",
		`queue { length = -1 }`:                        "must be between",
		`queue { length = 0 }`:                         "",
		`queue { timeout = "0s" }`:                     "must be between",
		`outlier { failures = -1 }`:                    "must be between",
		`outlier { failures = 0 }`:                     "",
		`outlier { statuses = ["200"] }`:               "must be an error status",
		`outlier { statuses = ["503"] }`:               "",
		`outlier { eject_for = "1h" }`:                 "must not be below eject_for",
		`outlier { max_percent = 101 }`:                "must be between",
		`host = "https://x"`:                           "without scheme",
		`path = "shop"`:                                "must start with a slash",
		`path = "/a?b"`:                                "must start with a slash",
		`mode = "tunnel"`:                              `must be "proxy"`,
		`sticky { cookie = "a.b" }`:                    "",
		`sticky { cookie = "a=b" }`:                    "cookie name",
		`sticky { cookie = "ä" }`:                      "cookie name",
		`sticky { cookie = "" }`:                       "cookie name",
		`sticky { cookie = "__Host-lb" }`:              `needs secure = "on"`,
		`sticky { learn = "RONDEL" }`:                  "must differ",
		`sticky { learn_path = "jsessionid" }`:         "",
		`sticky { learn_path = ";jsessionid" }`:        "parameter's name alone",
		`sticky { learn_query = "a&b" }`:               "parameter's name alone",
		`sticky { learn_header = "X-Session" }`:        "",
		`sticky { learn_header = "X Session" }`:        "a header's name",
		`sticky { learn_header = "Cookie" }`:           "for a cookie there is learn",
		`sticky { learn_header = "Rondel-Session" }`:   "has another meaning",
		`mode = "redirect"`:                            "",
		`redirect_to = "https://{member}.example.com"`: "has no effect",
		"mode = \"redirect\"\nredirect_to = \"https://{member}.example.com:8443\"":                     "",
		"mode = \"redirect\"\nredirect_to = \"https://{address}:{port}\"":                              "which speaks no https",
		"mode = \"redirect\"\nredirect_to = \"https://{address}:8443\"":                                "",
		"mode = \"redirect\"\nredirect_to = \"https://{member}.example.com/\"":                         "a scheme and a host",
		"mode = \"redirect\"\nredirect_to = \"{member}.example.com\"":                                  "a scheme and a host",
		"mode = \"redirect\"\nredirect_to = \"https://{host}\"":                                        "a scheme and a host",
		"mode = \"redirect\"\nredirect_to = \"https://u:p@{member}\"":                                  "a scheme and a host",
		"mode = \"redirect\"\nredirect_to = \"https://shop.example.com\"":                              "the same for all members",
		"mode = \"redirect\"\nsticky { secure = \"on\" }":                                              "must be https",
		"mode = \"redirect\"\nredirect_to = \"https://{member}.a.com\"\nsticky { domain = \"b.com\" }": "in the cookie's domain",
		"mode = \"redirect\"\nredirect_to = \"https://{member}.a.com\"\nsticky { domain = \"a.com\" }": "",
		`sticky { strict = true }`:               "",
		`sticky { strict = "yes" }`:              "strict",
		`sticky { same_site = "none" }`:          `needs secure = "on"`,
		`sticky { same_site = "strict" }`:        "",
		`sticky { same_site = "maybe" }`:         `must be "Lax"`,
		`sticky { max_age = "1ms" }`:             "must be between",
		`retry { attempts = 0 }`:                 "must be between",
		`retry { on = ["always"] }`:              `must be "connect"`,
		`retry { on = ["200"] }`:                 `must be "connect"`,
		`retry { on = ["5030"] }`:                `must be "connect"`,
		`retry { on = ["503"] }`:                 `needs "idempotent" or "keyed"`,
		`retry { on = ["keyed", "503", "503"] }`: "",
		`retry { within = "1ms" }`:               "must be between",
		`retry { body = "17MiB" }`:               "must be between",
		`retry { body = "0B" }`:                  "",
	} {
		path := write(t, t.TempDir(), "a.hcl", "route \"shop\" {\n"+body+"\n}")
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestRoute_twoForTheSameRequests(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "a.hcl", "route \"a\" {}\nroute \"b\" {}")
	if problems := mustFail(t, Options{Paths: []string{path}, Flags: []Setting{devFlag()}}); problems[0].At.Line != 2 {
		t.Errorf("problems = %v", problems)
	}
}

func TestService_rules(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`port = 80`:                    "",
		``:                             "service.shop.port",
		"port = 80\naddress = \"a:1\"": "without a port",
		"port = 80\ncheck {}":          "exactly one of",
		"port = 80\ncheck {\nhttp = \"/\"\ntcp = \":1\"\n}":                        "exactly one of",
		"port = 80\ncheck { http = \"health\" }":                                   "must be a path",
		"port = 80\ncheck { tcp = \"x\" }":                                         "must be \":PORT\"",
		"port = 80\ncheck { ttl = \"10s\" }":                                       "",
		"port = 80\ncheck {\ntcp = \":1\"\ntimeout = \"9s\"\n}":                    "must be below",
		"port = 80\ncheck {\ntcp = \":1\"\ninterval = \"2s\"\ntimeout = \"2s\"\n}": "must be below",
		"port = 80\ncheck {\ntcp = \":1\"\ninterval = \"500ms\"\n}":                "",
		"port = 80\ncheck {\nhttp = \"/\"\nhealthy = \"200-199\"\n}":               "must be statuses",
		"port = 80\ncheck {\nhttp = \"/\"\nhealthy = \"200-299,401\"\n}":           "",
		"port = 80\ncheck {\nhttp = \"/\"\nwarning = \"\"\n}":                      "must be statuses",
		"port = 80\ncheck {\nhttp = \"/\"\nmethod = \"get\"\n}":                    "must be a method",
		"port = 80\ncheck {\nhttp = \"/\"\nscheme = \"h2\"\n}":                     `must be "http"`,
		"port = 80\ncheck {\nhttp = \"/\"\nhost = \"a b\"\n}":                      "Host header",
		"port = 80\ncheck {\nhttp = \"/\"\nrise = 0\n}":                            "must be between",
		"port = 80\ncheck {\nhttp = \"/\"\nfall = 101\n}":                          "must be between",
		"port = 80\ncheck {\nhttp = \"/\"\nbody_limit = \"0B\"\n}":                 "must be between",
		"port = 80\ncheck {\ntcp = \":1\"\n}\ncheck { http = \"bad\" }":            "service.shop.check[2].http",
	} {
		path := write(t, t.TempDir(), "a.hcl", "service \"shop\" {\n"+body+"\n}")
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestProxy_phases(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`timeouts { header = "5s" }`:                        "",
		`timeouts { header = "0s" }`:                        "proxy.timeouts.header",
		`timeouts { header = 5 }`:                           "add a unit",
		`timeouts { drain = "0s" }`:                         "",
		`timeouts { queue = "1s" }`:                         "Unsupported argument",
		`limits { request_head = "1KiB" }`:                  "between 4KiB and 16MiB",
		`limits { response_head = "1GiB" }`:                 "between 4KiB and 16MiB",
		`limits { request_body = "10MiB" }`:                 "",
		`limits { connections = -1 }`:                       "proxy.limits.connections",
		`access_log { path = "stdout" }`:                    "",
		`access_log { path = "access.log" }`:                "whole path",
		`access_log { path = "/no/such/directory/at/all" }`: "directory that exists",
		`access_log { path = "/" }`:                         "this is a directory",
		`access_log { format = "clf" }`:                     `must be "json" or "combined"`,
		`access_log { query = "some" }`:                     `must be "names"`,
	} {
		path := write(t, t.TempDir(), "a.hcl", "proxy {\n"+body+"\n}\nroute \"a\" {\n timeouts { response = \"5m\" }\n limits { request_body = \"1GiB\" }\n}")
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path+":2")) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	for body, want := range map[string]string{
		`timeouts { tunnel = "1us" }`:      "route.a.timeouts.tunnel",
		`timeouts { header = "1s" }`:       "Unsupported argument",
		`limits { request_body = "2TiB" }`: "route.a.limits.request_body",
	} {
		path := write(t, t.TempDir(), "a.hcl", "route \"a\" {\n"+body+"\n}")
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`node_name = "x"`, `{"session":{"ttl":"1m"}}`, `service "a" { check { ttl = 1e999 } }`, `{"service":[{"a":{"check":[{},{}]}}]}`, "session {\n ttl = [null]\n}", `{"route":{"":null}}`} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, json bool) {
		name := "a.hcl"
		if json {
			name = "a.json"
		}
		l, _ := decode(name, []byte(text))
		merged := merge(ptr(defaults("web1")), &l.file)
		merged.runtime(&checker{origins: l.origins}, testHost())
	})
}

func TestLoad_whatThisVersionLacksIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`redis { address = ":8703" }`:      ":1: redis.address",
		"session {\n backend = \"sql\"\n}": ":2: session.backend",
	} {
		path := write(t, t.TempDir(), "a.hcl", text)
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "this version") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestLoad_maxSizeFitsBetweenAgents: a session must fit into the queue to
// another agent beside one more.
func TestLoad_maxSizeFitsBetweenAgents(t *testing.T) {
	t.Parallel()
	for size, ok := range map[string]bool{"7MiB": true, "8MiB": false, "64MiB": false} {
		_, err := Load(Options{Host: testHost(), Flags: []Setting{devFlag(), {"session.max_size", size, "-x"}}})
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "between 1KiB and 7MiB") {
			t.Errorf("%s: %v", size, err)
		}
	}
}

// Two routes that send their clients to one address must differ in path there.
func TestLoad_redirectsThatMeet(t *testing.T) {
	t.Parallel()
	https := "\n}\nproxy {\nhttps = \":8443\"\nredirect_https = true\ncert_file = \"c\"\nkey_file = \"k\""
	for b, want := range map[string]string{
		"path = \"/b\"" + https:                                             "send every client there",
		`host = "b.example.com"`:                                            "cannot be told apart",
		"host = \"b.example.com\"\npath = \"/b\"":                           "",
		"host = \"b.example.com\"\nredirect_to = \"http://{member}.b.com\"": "",
	} {
		text := "route \"a\" {\nmode = \"redirect\"\nhost = \"a.example.com\"\n}\nroute \"b\" {\nmode = \"redirect\"\n" + b + "\n}"
		_, err := Load(Options{Paths: []string{write(t, t.TempDir(), "a.hcl", text)}, Flags: []Setting{devFlag()}, Host: testHost()})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", b, err, want)
		}
	}
}
