package command

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/command/group"
	"github.com/rondel-project/rondel/command/term"
)

// result is what a command line came to.
type result struct {
	stdout, stderr string
	code           int
}

func run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := Run(args, term.Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs})
	return result{out.String(), errs.String(), code}
}

func verbNames() []string { return slices.Sorted(maps.Keys(registry(term.Streams{}))) }

func TestVerbs_explainThemselves(t *testing.T) {
	t.Parallel()
	for _, name := range verbNames() {
		for _, flag := range []string{"-h", "--help"} {
			got := run(t, "", append(strings.Fields(name), flag)...)
			if got.code != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "Usage: rondel "+name) {
				t.Errorf("%s %s: exit %d, stdout %q, stderr %q", name, flag, got.code, got.stdout, got.stderr)
			}
			if strings.Contains(got.stdout, "\t") {
				t.Errorf("%s: tabs in the help", name)
			}
			verb, err := registry(term.Streams{})[name]()
			if err != nil {
				t.Fatal(err)
			}
			if _, grouped := verb.(*group.Command); !grouped && !strings.Contains(got.stdout, "  $ rondel "+name) && !strings.Contains(got.stdout, "rondel "+name+" ") {
				t.Errorf("%s: no example in the help", name)
			}
			if s := verb.Synopsis(); s == "" || strings.HasSuffix(s, ".") {
				t.Errorf("%s: synopsis %q", name, s)
			}
		}
	}
}

func TestVerbs_refuseWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	for _, name := range verbNames() {
		verb, err := registry(term.Streams{})[name]()
		if err != nil {
			t.Fatal(err)
		}
		got := run(t, "", append(strings.Fields(name), "--bogus")...)
		want := "unknown option -bogus"
		if _, grouped := verb.(*group.Command); grouped {
			want = "unknown subcommand"
		}
		if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, want) || !strings.Contains(got.stderr, " -h`") {
			t.Errorf("%s --bogus: exit %d, stdout %q, stderr %q", name, got.code, got.stdout, got.stderr)
		}
	}
}

func TestRun_wrongUse(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                "Usage: rondel <command>",
		"sesion":                          `did you mean "session"?`,
		"session":                         "a subcommand is missing",
		"session gett":                    `did you mean "get"?`,
		"session getx 1":                  `unknown subcommand "getx"`,
		"ring lokate k":                   `"lokate" is one`,
		"operator raft peers":             `unknown subcommand "peers"`,
		"-format=json members":            "options come behind it",
		"members extra":                   `"extra" is one`,
		"members -format=xml":             "-format is table or json",
		"members -status=(":               "-status",
		"members -detailed=perhaps":       "is true or false",
		"members -http-addr":              "needs a value",
		"members -statis=alive":           "did you mean -status?",
		"members -http-addr=ftp://x":      "unknown scheme",
		"join":                            "is missing",
		"force-leave a b":                 "one argument too many",
		"session get":                     "the id of a session is missing",
		"session put 1":                   "NAME=VALUE to set is missing",
		"session put 1 x":                 "not of the form NAME=VALUE",
		"session put 1 a=1 a=2":           `"a" is given twice`,
		"session list -limit=many":        "whole number",
		"session create -ttl=30":          "add a unit",
		"services maint -id=x":            "either -enable or -disable",
		"services maint -enable -disable": "either -enable or -disable",
		"services drain -enable":          "-id=ID",
		"services drain -disable -id=x -deadline=1s": "goes with -enable",
		"services drain -enable -id=x -deadline=1":   "a time with a unit",
		"services weight 5":                          "-id=ID",
		"services weight -id=x -- -5":                "whole number",
		"services weight -id=x heavy":                "whole number",
		"services maint -disable -reason=x":          "-id=ID",
		"monitor -log-level=loud":                    "trace, debug, info, warn or error",
		"validate":                                   "is missing",
		"keygen now":                                 "takes no arguments",
		"agent now":                                  "takes no arguments",
	} {
		got := run(t, "", strings.Fields(line)...)
		if got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("rondel %s: exit %d, stdout %q, stderr %q, want %q", line, got.code, got.stdout, got.stderr, want)
		}
	}
}

func TestRun_askedForHelpOrVersion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"-h": "Commands:", "--help": "Commands:", "help": "Commands:", "help session get": "Usage: rondel session get",
		"--version": "rondel v", "-v": "rondel v", "version": "rondel v", "version -format=json": `"Version"`,
	} {
		if got := run(t, "", strings.Fields(line)...); got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, want) {
			t.Errorf("rondel %s: exit %d, stdout %q, stderr %q", line, got.code, got.stdout, got.stderr)
		}
	}
}

func TestRun_keygenMakesDifferentKeysThatConfigurationTakes(t *testing.T) {
	t.Parallel()
	one, two := run(t, "", "keygen"), run(t, "", "keygen")
	if one.code != 0 || one.stdout == two.stdout {
		t.Fatalf("%+v %+v", one, two)
	}
	file := filepath.Join(t.TempDir(), "a.hcl")
	if err := os.WriteFile(file, []byte("encrypt = \""+strings.TrimSpace(one.stdout)+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "", "validate", "-dev", file); got.code != 0 || got.stdout != "The configuration is valid.\n" {
		t.Errorf("%+v", got)
	}
}

func TestRun_validate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.hcl")
	if err := os.WriteFile(file, []byte("session {\n  ttl = 30\n}\nnode_nam = \"x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, "", "validate", "-dev", file)
	if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "2 problems") || !strings.Contains(got.stderr, file+":2: session.ttl = 30: add a unit") {
		t.Errorf("%+v", got)
	}
	got = run(t, "", "validate", "-dev", "-format=json", file)
	if got.code != 1 || !strings.Contains(got.stdout, `"Valid": false`) || !strings.Contains(got.stdout, `"Line": 4`) {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(file, []byte("session {\n  ttl = \"90m\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = run(t, "", "validate", "-dev", "-show", file)
	if got.code != 0 || !strings.Contains(got.stdout, `"1h30m"`) || !strings.Contains(got.stdout, file+":2") {
		t.Errorf("%+v", got)
	}
}
