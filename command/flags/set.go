package flags

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ErrHelp means that help was asked for.
var ErrHelp = errors.New("help was asked for")

// UsageError is a command line that means nothing; the exit code is 2.
type UsageError struct{ Reason string }

func (e *UsageError) Error() string { return e.Reason }

// Misuse returns a UsageError.
func Misuse(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Usage is what a verb's help says beside its options.
type Usage struct {
	Name     string   // "force-leave"
	Operands string   // "NODE"; empty: none
	Text     string   // what it does, for somebody new
	Examples []string // command lines
	Min, Max int      // number of arguments; Max < 0: any
	Args     string   // what the arguments are, for the error: "the id of a session"
}

func (u Usage) line() string {
	return strings.TrimRight("rondel "+u.Name+" [options] "+u.Operands, " ")
}

// Set is the options of one verb.
type Set struct {
	usage Usage
	fs    *flag.FlagSet
	shape map[string]string // option to the placeholder of its value
	agent []string          // options about the connection, shown in their own group
}

// New returns a set without options.
func New(u Usage) *Set {
	fs := flag.NewFlagSet(u.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return &Set{usage: u, fs: fs, shape: map[string]string{}}
}

// Bool declares a switch.
func (s *Set) Bool(p *bool, name, text string) { s.fs.BoolVar(p, name, *p, text) }

// String declares a text; shape is its placeholder in the help.
func (s *Set) String(p *string, name, shape, text string) {
	s.fs.StringVar(p, name, *p, text)
	s.shape[name] = shape
}

// Int declares a whole number.
func (s *Set) Int(p *int, name, shape, text string) {
	s.fs.IntVar(p, name, *p, text)
	s.shape[name] = shape
}

// Func declares an option whose every use calls f; the help says that it may be
// repeated where repeat is set.
func (s *Set) Func(name, shape, text string, repeat bool, f func(string) error) {
	if repeat {
		text += "; may be repeated"
	}
	s.fs.Func(name, text, f)
	s.shape[name] = shape
}

// Switch declares a switch whose use calls f.
func (s *Set) Switch(name, text string, f func(string) error) { s.fs.BoolFunc(name, text, f) }

// Parse reads a command line and returns the arguments.
func (s *Set) Parse(args []string) ([]string, error) {
	var rest []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if name == "h" || name == "help" {
			return nil, ErrHelp
		}
		f := s.fs.Lookup(name)
		if f == nil {
			return nil, s.unknown(name)
		}
		if !hasValue {
			if isBool(f) {
				value = "true"
			} else if i++; i < len(args) {
				value = args[i]
			} else {
				return nil, Misuse("option -%s needs a value: -%s=%s", name, name, s.shape[name])
			}
		}
		if err := s.fs.Set(name, value); err != nil {
			return nil, s.badValue(f, value, err)
		}
	}
	return rest, s.count(rest)
}

// Given reports whether an option was used.
func (s *Set) Given(name string) (given bool) {
	s.fs.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

func (s *Set) badValue(f *flag.Flag, value string, err error) error {
	var usage *UsageError
	switch {
	case errors.As(err, &usage):
		return err
	case isBool(f):
		return Misuse("option -%s is true or false, not %q", f.Name, value)
	case s.shape[f.Name] == "N":
		return Misuse("option -%s needs a whole number, not %q", f.Name, value)
	}
	return Misuse("option -%s: %q: %v", f.Name, value, err)
}

func (s *Set) unknown(name string) error {
	var names []string
	s.fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	hint := ""
	if near := Nearest(name, names); near != "" {
		hint = "; did you mean -" + near + "?"
	}
	return Misuse("unknown option -%s%s", name, hint)
}

func (s *Set) count(args []string) error {
	u := s.usage
	switch {
	case len(args) < u.Min:
		return Misuse("%s is missing", u.Args)
	case u.Max == 0 && len(args) > 0:
		return Misuse("it takes no arguments, and %q is one; options begin with a dash", args[0])
	case u.Max > 0 && len(args) > u.Max:
		return Misuse("%q is one argument too many", args[u.Max])
	}
	return nil
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// Nearest returns the candidate that word was probably meant to be, or "".
func Nearest(word string, candidates []string) string {
	best, bestCost := "", 3
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		cost := distance(word, c)
		if len(word) > 2 && strings.HasPrefix(c, word) {
			cost = min(cost, 1)
		}
		if cost < bestCost && cost < len(c) {
			best, bestCost = c, cost
		}
	}
	return best
}

// distance counts the letters to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
