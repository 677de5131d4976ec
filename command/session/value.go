package session

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/rondel-project/rondel/command/flags"
)

const valueHelp = "A VALUE that is JSON (a number, true, false, null, an object, a list or a quoted text) is taken as that, anything else as text; -text takes every VALUE as text."

// attributes reads NAME=VALUE words.
func attributes(words []string, text bool) (map[string]any, error) {
	out := map[string]any{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, flags.Misuse("%q is not of the form NAME=VALUE", word)
		}
		if !utf8.ValidString(word) {
			return nil, flags.Misuse("%q is not UTF-8: names and values would arrive changed", word)
		}
		if _, twice := out[name]; twice {
			return nil, flags.Misuse("attribute %q is given twice", name)
		}
		if !text && json.Valid([]byte(value)) {
			out[name] = json.RawMessage(value)
		} else {
			out[name] = value
		}
	}
	return out, nil
}
