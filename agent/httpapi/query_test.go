package httpapi

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pathOf fills in the names of a pattern.
func pathOf(pattern string) string {
	return strings.NewReplacer(":id", "x", ":name", "x", ":key", "x", ":addr", "x", ":node", "x").Replace(pattern)
}

// No endpoint ignores a parameter that it does not know: the refusal names it,
// and what there is, and nothing is done.
func TestQuery_unknownParametersAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, r := range h.server.table() {
		body := h.want(h.do(r.method, pathOf(r.pattern)+"?pretty=false&no+such=1", ""), 400).Body.String()
		for name := range strings.FieldsSeq("?no+such: bad_request pretty " + r.query) {
			if !strings.Contains(body, name) {
				t.Errorf("%s %s: the refusal does not say %s: %s", r.method, r.pattern, name, body)
			}
		}
		if r.method == "GET" {
			h.want(h.do("HEAD", pathOf(r.pattern)+"?no+such", ""), 400)
		}
	}
	at := h.newSession(`{"Attributes":{"n":1}}`)
	h.want(h.do("PATCH", at+"?ack=2", `{"Attributes":{"n":2}}`), 400)
	h.want(h.do("DELETE", at+"?acks=2&force", ""), 400)
	h.want(h.do("GET", at+"/attributes/n?consistency=stale&touch&pretty", ""), 200, "1")
	h.want(h.do("PATCH", at+"?acks=2&pretty", `{"Attributes":{"n":2}}`), 200)
}

// The table names what handlers read, no more and no less, or clients are
// refused what is there for them.
func TestQuery_tableNamesWhatHandlersRead(t *testing.T) {
	t.Parallel()
	listed, read := map[string]bool{"pretty": true}, map[string]bool{}
	for _, r := range newHarness(t).server.table() {
		for name := range strings.FieldsSeq(r.query) {
			listed[name] = true
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reads := regexp.MustCompile(`(?:query\.Get\(|query\.Has\(|query\[|\.flag\()"(\w+)"`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reads.FindAllSubmatch(text, -1) {
			read[string(m[1])] = true
		}
	}
	for name := range read {
		if !listed[name] {
			t.Errorf("a handler reads ?%s, which no endpoint in the table has", name)
		}
	}
	for name := range listed {
		if !read[name] {
			t.Errorf("the table has ?%s, which no handler reads", name)
		}
	}
}
