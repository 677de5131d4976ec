// Package website holds the documentation. It has nothing but tests, which
// hold the pages to what the program has: every verb, endpoint and option has
// its place, and every link leads somewhere.
package website

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// docs is a path as pages gives them.
const docs = "../website/content/docs"

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// find returns what pattern's groups match in text, and fails where a change of
// the source has left it without a match.
func find(t *testing.T, pattern, text string) [][]string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		t.Fatalf("nothing looks like %s any more", pattern)
	}
	return found
}

// pages returns all texts of the repository, by their path from here.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, d.Name()):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".md"):
			out[filepath.Clean(path)] = read(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDocs_everyVerbIsShown(t *testing.T) {
	t.Parallel()
	shown := read(t, docs+"/command-line.md")
	for _, m := range find(t, `(?m)^\t\t"([a-z -]+)":\s`, read(t, "../command/registry.go")) {
		verb := m[1]
		page := "commands/" + strings.ReplaceAll(verb, " ", "-") + ".md"
		if _, err := os.Stat(filepath.Join(docs, page)); err != nil {
			t.Errorf("rondel %s has no page: `make docs` writes it", verb)
		}
		switch top, _, isSub := strings.Cut(verb, " "); {
		case !strings.Contains(shown, "\n## rondel "+top+"\n"):
			t.Errorf("command-line.md has no example of rondel %s", top)
		case isSub && verb != "operator raft" && !strings.Contains(shown, "("+page+")"):
			t.Errorf("command-line.md does not show rondel %s, or does not link to %s", verb, page)
		}
	}
}

func TestDocs_everyEndpointHasItsPlace(t *testing.T) {
	t.Parallel()
	routes := map[string]bool{}
	for _, m := range find(t, `\{"([A-Z]+)", "(/v1/[^"]+)", s\.`, read(t, "../agent/httpapi/routes.go")) {
		routes["`"+m[1]+" "+m[2]+"`"] = false
	}
	named := regexp.MustCompile("`(?:GET|POST|PUT|PATCH|DELETE) /v1/[^`?]*`")
	for path, text := range pages(t) {
		if filepath.Dir(path) != filepath.Join(docs, "api") {
			continue
		}
		for _, name := range named.FindAllString(text, -1) {
			if _, ok := routes[name]; !ok {
				t.Errorf("%s names %s, which is no endpoint", path, name)
			}
			routes[name] = true
		}
	}
	for name, found := range routes {
		if !found {
			t.Errorf("no page of %s/api names %s", docs, name)
		}
	}
}

func TestDocs_everyOptionHasItsPlace(t *testing.T) {
	t.Parallel()
	page := read(t, docs+"/configuration.md")
	sources, err := filepath.Glob("../agent/config/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal("no sources of the configuration", err)
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(`opt:"([a-z0-9_.]+)`).FindAllStringSubmatch(read(t, source), -1) {
			name := m[1][strings.LastIndexByte(m[1], '.')+1:]
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("configuration.md does not name %s", m[1])
			}
		}
	}
}

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```[ ]*$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
)

// anchors are the names under which a page's headings can be linked to.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		out[name] = true
	}
	return out
}

func TestDocs_everyLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for path, text := range all {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
				if _, err := os.Stat(to); err != nil {
					t.Errorf("%s: %s leads nowhere", path, m[1])
					continue
				}
			}
			if anchor != "" && !anchors(all[to])[anchor] {
				t.Errorf("%s: %s: there is no such heading", path, m[1])
			}
		}
	}
}

func TestDocs_everyPageIsReached(t *testing.T) {
	t.Parallel()
	all := pages(t)
	start := filepath.Join(docs, "index.md")
	reached := map[string]bool{start: true}
	for todo := []string{start}; len(todo) > 0; {
		path := todo[0]
		todo = todo[1:]
		for _, m := range link.FindAllStringSubmatch(all[path], -1) {
			target, _, _ := strings.Cut(m[1], "#")
			to := filepath.Join(filepath.Dir(path), target)
			if _, ok := all[to]; ok && target != "" && !reached[to] {
				reached[to] = true
				todo = append(todo, to)
			}
		}
	}
	for path := range all {
		if strings.HasPrefix(path, docs) && !reached[path] {
			t.Errorf("nothing leads from %s to %s", start, path)
		}
	}
}
