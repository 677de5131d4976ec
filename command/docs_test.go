package command

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/command/term"
)

var update = flag.Bool("update", false, "write testdata and the website's pages of commands")

// TestWebsite_everyVerbHasItsPage keeps the pages equal to what the verbs say
// about themselves.
func TestWebsite_everyVerbHasItsPage(t *testing.T) {
	t.Parallel()
	dir := "../website/content/docs/commands"
	want := map[string]string{"index.md": index()}
	for _, name := range verbNames() {
		want[strings.ReplaceAll(name, " ", "-")+".md"] = fmt.Sprintf("# rondel %s\n\n```\n%s```\n", name, run(t, "", append(strings.Fields(name), "-h")...).stdout)
	}
	for file, text := range want {
		golden(t, filepath.Join(dir, file), text)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, ok := want[e.Name()]; !ok {
			t.Errorf("%s describes no command", filepath.Join(dir, e.Name()))
		}
	}
}

func index() string {
	var b strings.Builder
	b.WriteString("# Commands\n\n" +
		"Each command explains itself with `-h`; these pages are that text, written by `make docs`.\n\n" +
		"Results are on stdout, all else on stderr. Commands that read print a table for people and, with `-format=json`, one JSON\n" +
		"document for scripts: lists are sorted and `[]` when empty, times are RFC 3339, errors are one line of text on stderr.\n" +
		"Options take one dash or two, before or behind the arguments; `--` ends them. Exit codes: 0 done, 1 failed, 2 used wrongly.\n\n" +
		"| command | does |\n| --- | --- |\n")
	for _, name := range verbNames() {
		if verb, err := registry(term.Streams{})[name](); err == nil {
			fmt.Fprintf(&b, "| [`%s`](%s.md) | %s |\n", name, strings.ReplaceAll(name, " ", "-"), verb.Synopsis())
		}
	}
	return b.String()
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s is not up to date (%v), `make docs` writes it; now:\n%s", path, err, got)
	}
}
