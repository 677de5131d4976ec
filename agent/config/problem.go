package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Problem is one thing wrong with the configuration.
type Problem struct {
	At     Origin
	Option string // path such as session.ttl; empty for a file that cannot be read
	Value  string // as written, hidden where it is a secret
	Rule   string // what would be right
}

// Error returns "web1.hcl:3: session.ttl = 30: add a unit, as in …" on one line.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.At.String())
	if p.Option != "" {
		b.WriteString(": " + p.Option)
		if p.Value != "" {
			b.WriteString(" = " + p.Value)
		}
	}
	return b.String() + ": " + p.Rule
}

// Problems is every problem found, in the order of files and lines. As an error
// it reads one per line.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.At.Source, b.At.Source), cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.Option, b.Option))
	})
}

// checker collects problems while a File becomes a Runtime.
type checker struct {
	origins  Origins
	problems Problems
	warnings Problems
}

func (c *checker) problem(option string, value any, rule string) Problem {
	return Problem{At: c.origins.of(option), Option: option, Value: show(option, value), Rule: rule}
}

func (c *checker) fail(option string, value any, rule string) {
	c.problems = append(c.problems, c.problem(option, value, rule))
}

func (c *checker) warn(option string, value any, rule string) {
	c.warnings = append(c.warnings, c.problem(option, value, rule))
}

// absent reports an option that later versions know and this one would ignore
// without a word.
func (c *checker) absent(option, value, what string) {
	if value != "" {
		c.fail(option, value, "must stay empty: "+what+" is not part of this version")
	}
}

func (c *checker) oneOf(option, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.fail(option, value, "must be "+orList(allowed))
	}
}

func (c *checker) between(option string, value, low, high int) {
	if value < low || value > high {
		c.fail(option, value, fmt.Sprintf("must be between %d and %d", low, high))
	}
}

func (c *checker) durationBetween(option string, value Duration, low, high time.Duration) {
	if d := time.Duration(value); d < low || d > high {
		c.fail(option, value, fmt.Sprintf("must be between %s and %s", Duration(low), Duration(high)))
	}
}

func (c *checker) sizeBetween(option string, value Size, low, high int64) {
	if n := int64(value); n < low || n > high {
		c.fail(option, value, fmt.Sprintf("must be between %s and %s", Size(low), Size(high)))
	}
}

// listener reads "HOST:PORT" or ":PORT", the latter on the address that host
// stands for. An empty text means no listener.
func (c *checker) listener(option, text string, host netip.Addr) netip.AddrPort {
	if text == "" {
		return netip.AddrPort{}
	}
	name, port, ok := splitHostPort(text)
	addr := host
	switch {
	case !ok:
	case name == "localhost":
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case name != "":
		a, err := netip.ParseAddr(name)
		addr, ok = a.Unmap(), err == nil
	}
	if !ok {
		c.fail(option, text, `must be ":PORT" or "ADDRESS:PORT" with an IP address, as in ":8780" or "[::1]:8780"`)
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(addr, port)
}

func splitHostPort(text string) (host string, port uint16, ok bool) {
	host, digits, err := net.SplitHostPort(text)
	n, perr := strconv.ParseUint(digits, 10, 16)
	return host, uint16(n), err == nil && perr == nil
}

func orList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	if len(quoted) == 1 {
		return quoted[0] + " in this version"
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}

// show writes a value as a configuration file would, and keeps keys out of logs.
func show(option string, value any) string {
	if option == "encrypt" {
		return "(hidden)"
	}
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case fmt.Stringer:
		return strconv.Quote(v.String())
	}
	return fmt.Sprint(value)
}

func parent(path string) string {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return ""
	}
	return path[:i]
}
