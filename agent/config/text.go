package config

import (
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rondel-project/rondel/agent/internal/unit"
)

// setText stores text in an attribute's field. All four sources of values end
// here, which is what makes their verdicts equal. The rule is empty on success.
func setText(field reflect.Value, text string) (rule string) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return "must be UTF-8 text without zero bytes"
	}
	out := reflect.New(field.Type().Elem())
	switch v := out.Interface().(type) {
	case *string:
		*v = text
	case *bool:
		b, ok := map[string]bool{"true": true, "false": false}[text]
		if !ok {
			return "must be true or false"
		}
		*v = b
	case *int:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return "must be a whole number"
		}
		*v = int(n)
	case *Duration:
		d, err := unit.ParseDuration(text)
		if err != nil {
			return err.Error()
		}
		*v = Duration(d)
	case *Size:
		n, err := unit.ParseSize(text)
		if err != nil {
			return err.Error()
		}
		*v = Size(n)
	case *[]string:
		*v = splitList(text)
	}
	field.Set(out)
	return ""
}

// splitList takes a comma separated list; an empty text is an empty list.
func splitList(text string) []string {
	out := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
