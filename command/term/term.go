package term

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"text/tabwriter"
	"unicode"
)

// Streams are a command's standard streams.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Table collects rows and writes them in aligned columns.
type Table struct {
	rows [][]string
}

// NewTable starts a table; without a header the first Row is the first line.
func NewTable(header ...string) *Table {
	t := &Table{}
	if len(header) > 0 {
		t.rows = append(t.rows, header)
	}
	return t
}

// Row adds a line. Empty cells are shown as a dash, so that columns can be cut.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if row[i] = Clean(fmt.Sprint(cell)); row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// Write writes the table.
func (t *Table) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		if _, err := fmt.Fprintln(tw, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// WriteJSON writes one indented document with a line end.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Fail writes an error for people. A reader that has gone away is no news to it.
func Fail(w io.Writer, err error) {
	if !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintln(w, "Error:", CleanLines(err.Error()))
	}
}

// Clean makes a text from elsewhere safe to show on one line of a terminal.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || r == unicode.ReplacementChar:
			return '?'
		}
		return r
	}, s)
}

// CleanLines is Clean for a text of several lines.
func CleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// List makes an absent list an empty one, which JSON shows as [].
func List[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
