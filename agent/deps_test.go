package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rondel-project/rondel"

// mayImport is who may import whom. A key or a value that ends in "/*" stands
// for all packages below. Whatever is not here is a mistake, or a decision that
// belongs here.
var mayImport = map[string][]string{
	"":                  {"command", "command/term"},
	"api":               {},
	"scripts/bench/*":   {"scripts/bench/load", "scripts/bench/peers"},
	"scripts/chaos":     {"api"},
	"command":           {"command/*", "agent/version", "agent/config", "agent", "api"},
	"command/*":         {"api", "command/flags", "command/term"},
	"command/agent":     {"agent", "agent/config", "agent/version", "command/flags", "command/term", "command/settings"},
	"command/demo":      {"agent/version", "api", "command/flags", "command/term", "command/demo/*"},
	"command/demo/*":    {"api", "command/demo/*"},
	"command/flags":     {"api", "command/term"},
	"command/drain":     {"api", "command/flags", "command/handover", "command/term"},
	"command/group":     {"command/flags", "command/term"},
	"command/handover":  {"api", "command/term"},
	"command/leave":     {"api", "command/flags", "command/handover", "command/term"},
	"command/ring":      {"api", "command/flags", "command/handover", "command/term"},
	"command/services":  {"agent/config", "api", "command/flags", "command/term"}, // register reads service blocks
	"command/settings":  {"agent/config", "command/flags"},
	"command/term":      {},
	"command/validate":  {"agent/config", "command/flags", "command/settings", "command/term"},
	"command/version":   {"agent/version", "command/flags", "command/term"},
	"agent":             {"agent/*", "api"},
	"agent/accesslog":   {},
	"agent/acme":        {},
	"agent/catalog":     {"agent/member", "agent/load"},
	"agent/certs":       {},
	"agent/check":       {},
	"agent/config":      {"agent/member"},
	"agent/consensus":   {"agent/member", "agent/ring"},
	"agent/gossip":      {"agent/member", "agent/load"},
	"agent/http1":       {},
	"agent/http2":       {"agent/http1"},
	"agent/httpapi":     {"api", "agent/member", "agent/ring", "agent/session", "agent/http1"},
	"agent/internal/*":  {},
	"agent/leader":      {"agent/member", "agent/ring", "agent/load"},
	"agent/load":        {"agent/member"},
	"agent/member":      {},
	"agent/proxy":       {"agent/member", "agent/ring", "agent/catalog", "agent/http1", "agent/http2", "agent/accesslog", "agent/proxyproto"},
	"agent/proxyproto":  {},
	"agent/redis":       {"agent/session"},
	"agent/replicate":   {"agent/member", "agent/ring", "agent/session"},
	"agent/replicate/*": {"agent/member", "agent/ring", "agent/session", "agent/replicate", "agent/replicate/*"},
	"agent/ring":        {"agent/member"},
	"agent/session":     {"agent/member", "agent/ring"},
	"agent/store":       {},
	"agent/telemetry":   {},
	"agent/ui":          {},
	"agent/version":     {},
	"agent/wire":        {"agent/member", "agent/session"},
	"internal/leaktest": {},
}

// chosen is every library that the product may be built on.
var chosen = []string{
	"github.com/cespare/xxhash/v2", "github.com/hashicorp/go-hclog", "github.com/hashicorp/hcl/v2", "github.com/hashicorp/memberlist",
	"github.com/hashicorp/raft", "github.com/hashicorp/raft-wal", "github.com/mitchellh/cli", "github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/prometheus/common",
	"github.com/shirou/gopsutil/v4", "github.com/zclconf/go-cty", "golang.org/x/crypto", "golang.org/x/net", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/term",
	"github.com/hashicorp/go-metrics", "github.com/hashicorp/go-msgpack/v2",
}

type listed struct {
	ImportPath string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var out []listed
	dec := json.NewDecoder(bytes.NewReader(text))
	for {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
}

func relative(importPath string) (name string, ours bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func TestImports_followTheTable(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		from, _ := relative(p.ImportPath)
		if len(p.GoFiles) == 0 || forTests(from) {
			continue
		}
		allowed, ok := rule(from)
		if !ok {
			t.Errorf("%s has no line in the table of agent/deps_test.go: say there what it may import", from)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := relative(imported)
			switch {
			case !ours && strings.Contains(strings.Split(imported, "/")[0], "."):
				if !slices.ContainsFunc(chosen, func(lib string) bool { return imported == lib || strings.HasPrefix(imported, lib+"/") }) {
					t.Errorf("%s imports %s, which is not among the chosen libraries", from, imported)
				}
			case !ours, strings.HasPrefix(from, "agent") && strings.HasPrefix(to, "agent/internal/"), strings.HasPrefix(to, from+"/internal/"):
			case forTests(to):
				t.Errorf("%s imports %s, which is for tests only", from, to)
			case !slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, to) }):
				t.Errorf("%s may not import %s: it may import %s; what it needs it declares as an interface of its own", from, to, strings.Join(allowed, ", "))
			}
		}
	}
}

// forTests reports whether a package is named as one that only tests import;
// such a package may import what it likes.
func forTests(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part) > len("test") && strings.HasSuffix(part, "test") })
}

// rule finds the line of a package: its own, else that of the folder above.
func rule(name string) ([]string, bool) {
	if allowed, ok := mayImport[name]; ok {
		return allowed, true
	}
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if allowed, ok := mayImport[dir+"/*"]; ok {
			return allowed, true
		}
	}
	return nil, false
}

func matches(pattern, name string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(name, folder+"/")
	}
	return pattern == name
}

func TestPackages_haveDocGo(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && !slices.Contains(p.GoFiles, "doc.go") {
			t.Errorf("%s has no doc.go that says what it owns, promises and does not do", p.ImportPath)
		}
	}
}
