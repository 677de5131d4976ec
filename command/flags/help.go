package flags

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

const width = 90

// Help returns the verb's help: what it does, examples, and every option as it
// was declared.
func (s *Set) Help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n\n", s.usage.line())
	for paragraph := range strings.SplitSeq(strings.TrimSpace(s.usage.Text), "\n\n") {
		b.WriteString(wrap(paragraph, "  ") + "\n")
	}
	if len(s.usage.Examples) > 0 {
		b.WriteString("Examples:\n\n")
		for _, e := range s.usage.Examples {
			b.WriteString("  $ " + e + "\n")
		}
		b.WriteString("\n")
	}
	own, connection := "", ""
	s.fs.VisitAll(func(f *flag.Flag) {
		if slices.Contains(s.agent, f.Name) {
			connection += s.describe(f)
		} else {
			own += s.describe(f)
		}
	})
	if own != "" {
		b.WriteString("Options:\n\n" + own)
	}
	if connection != "" {
		b.WriteString("Options for the connection to the agent:\n\n" + connection)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (s *Set) describe(f *flag.Flag) string {
	line := "  -" + f.Name
	if shape := s.shape[f.Name]; shape != "" {
		line += "=" + shape
	}
	text := f.Usage
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
		text += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return line + "\n" + wrap(text, "      ") + "\n"
}

// wrap breaks a paragraph into lines; one that is indented stays as it is.
func wrap(text, indent string) string {
	if strings.HasPrefix(text, " ") {
		lines := strings.Split(text, "\n")
		return indent + strings.Join(lines, "\n"+indent) + "\n"
	}
	var b strings.Builder
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return b.String() + line + "\n"
}
