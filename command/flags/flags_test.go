package flags

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func sample() (s *Set, detailed *bool, name *string, list *[]string) {
	detailed, name, list = new(bool), new(string), &[]string{}
	s = New(Usage{Name: "sample", Operands: "[THING...]", Text: "Does things.", Examples: []string{"rondel sample a"}, Max: -1})
	s.Bool(detailed, "detailed", "say more")
	s.String(name, "name", "NAME", "what to call it")
	s.Func("list", "ITEM", "items", true, func(text string) error { *list = append(*list, text); return nil })
	return s, detailed, name, list
}

func TestSet_optionsStandAnywhere(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"a b -detailed -name=x":              {"a", "b"},
		"--detailed --name x a b":            {"a", "b"},
		"a -detailed=true b -name x":         {"a", "b"},
		"-name x -detailed -- a b":           {"a", "b"},
		"-name=x -detailed -- -a --name=y":   {"-a", "--name=y"},
		"-name=x -detailed -":                {"-"},
		"-list=1 -name=x -detailed -list 2":  nil,
		"-detailed=false -name=x -detailed ": nil,
	} {
		s, detailed, name, _ := sample()
		got, err := s.Parse(strings.Fields(line))
		if err != nil || !slices.Equal(got, want) || !*detailed || *name != "x" {
			t.Errorf("%q: %q, %v, detailed %v, name %q", line, got, err, *detailed, *name)
		}
	}
}

func TestSet_repeats(t *testing.T) {
	t.Parallel()
	s, _, _, list := sample()
	if _, err := s.Parse([]string{"-list=1", "-list", "2"}); err != nil || !slices.Equal(*list, []string{"1", "2"}) || !s.Given("list") || s.Given("name") {
		t.Errorf("list = %v, %v", *list, err)
	}
}

func TestSet_mistakesAreUsage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"-detaled":         "did you mean -detailed?",
		"-det":             "did you mean -detailed?",
		"-zzz":             "unknown option -zzz",
		"-name":            "needs a value: -name=NAME",
		"-detailed=really": "true or false",
	} {
		s, _, _, _ := sample()
		_, err := s.Parse(strings.Fields(line))
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	s, _, _, _ := sample()
	if _, err := s.Parse([]string{"a", "--help"}); !errors.Is(err, ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}

func TestSet_helpShowsWhatWasDeclared(t *testing.T) {
	t.Parallel()
	s, _, _, _ := sample()
	help := s.Help()
	for _, want := range []string{"Usage: rondel sample [options] [THING...]", "Does things.", "$ rondel sample a", "-detailed\n", "-name=NAME\n", "may be repeated"} {
		if !strings.Contains(help, want) {
			t.Errorf("no %q in:\n%s", want, help)
		}
	}
}

func TestNearest_isSymmetricAndFindsItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringMatching(`[a-z]{0,8}`).Draw(t, "a"), rapid.StringMatching(`[a-z]{0,8}`).Draw(t, "b")
		if distance(a, b) != distance(b, a) || (distance(a, b) == 0) != (a == b) {
			t.Fatalf("distance(%q, %q) = %d and %d", a, b, distance(a, b), distance(b, a))
		}
		if len(a) > 0 && Nearest(a, []string{b + "-other-word", a}) != a {
			t.Fatalf("%q is not nearest to itself", a)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("-name=x a -- -b")
	f.Add("--=")
	f.Add("- -- --- ---x")
	f.Fuzz(func(t *testing.T, line string) {
		s, _, _, _ := sample()
		_, err := s.Parse(strings.Split(line, " "))
		var usage *UsageError
		if err != nil && !errors.Is(err, ErrHelp) && !errors.As(err, &usage) {
			t.Fatalf("%q: %v is not about usage", line, err)
		}
	})
}
