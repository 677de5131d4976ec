package term

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
)

func TestTable_alignsAndCleans(t *testing.T) {
	t.Parallel()
	table := NewTable("Name", "State")
	table.Row("web1", "alive")
	table.Row("long-name\x1b[31m", "")
	var b bytes.Buffer
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "Name            State\nweb1            alive\nlong-name?[31m  -\n"; b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestWriteJSON_keepsTextAsItIs(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := WriteJSON(&b, map[string]any{"A": "<&>", "L": List[string](nil)}); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"A\": \"<&>\",\n  \"L\": []\n}\n"; b.String() != want {
		t.Errorf("got %q", b.String())
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b]0;title\a\nb\xff")
	f.Fuzz(func(t *testing.T, s string) {
		if got := Clean(s); strings.ContainsFunc(got, unicode.IsControl) {
			t.Fatalf("%q has control characters", got)
		}
	})
}
