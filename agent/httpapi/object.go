package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rondel-project/rondel/api"
)

// maxNameLen bounds names of attributes, groups, principals and the like.
const maxNameLen = 1024

// pair is one key and value of a JSON object; the value is text.
type pair struct {
	name  string
	value []byte
}

// pairs splits an object that checkText has passed. A key that comes twice
// is refused: whoever sent it meant something that we would lose.
func pairs(b []byte, what string) ([]pair, error) {
	if len(b) == 0 || b[0] != '{' {
		return nil, badRequest("%s must be a JSON object", what)
	}
	var out []pair
	seen := make(map[string]bool)
	i := skipSpace(b, 1)
	for b[i] != '}' {
		start := i
		i, _ = skipString(b, i)
		name, ok := unquote(b[start:i])
		if !ok {
			return nil, failure(400, api.CodeBadName, "%s: the key %s is half a surrogate pair, not text", what, b[start:i])
		}
		if seen[name] {
			return nil, badRequest("%s: the key %q comes twice", what, name)
		}
		seen[name] = true
		i = skipSpace(b, skipSpace(b, i)+1) // past the colon
		start = i
		var err error
		if i, err = skipValue(b, i); err != nil {
			return nil, err
		}
		out = append(out, pair{name, b[start:i]})
		if i = skipSpace(b, i); b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return out, nil
}

// field says how one key of an object is read.
type field struct {
	name string
	into any // a pointer, or a func([]byte) error that takes the text
}

// readObject reads an object with no other keys than those of fields.
func readObject(b []byte, what string, fields ...field) error {
	ms, err := pairs(b, what)
	if err != nil {
		return err
	}
	for _, m := range ms {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == m.name })
		if i < 0 {
			return unknownKey(what, m.name, fields)
		}
		if err := readField(fields[i], m.value); err != nil {
			return fieldError(what, m.name, err)
		}
	}
	return nil
}

func readField(f field, text []byte) error {
	if read, ok := f.into.(func([]byte) error); ok {
		return read(text)
	}
	if s, ok := f.into.(*string); ok {
		return readString(text, s)
	}
	return json.Unmarshal(text, f.into)
}

func readString(text []byte, into *string) error {
	if text[0] != '"' {
		return badRequest("want a string")
	}
	s, ok := unquote(text)
	if !ok {
		return badRequest("half a surrogate pair is not text")
	}
	*into = s
	return nil
}

func unknownKey(what, name string, fields []field) error {
	known := make([]string, 0, len(fields))
	for _, f := range fields {
		known = append(known, f.name)
	}
	if len(known) == 0 {
		return failure(400, api.CodeUnknownKey, "%s: unknown key %q; it has none", what, name)
	}
	return failure(400, api.CodeUnknownKey, "%s: unknown key %q; known are %s", what, name, strings.Join(known, ", "))
}

// fieldError puts the name of the key before what is wrong with its value.
func fieldError(what, name string, err error) error {
	var coded *api.Error
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &coded):
		return failure(coded.StatusCode, coded.Code, "%s: %s: %s", what, name, coded.Message)
	case errors.Is(err, api.ErrDuration):
		return failure(400, api.CodeBadDuration, "%s: %s: %s", what, name, err)
	case errors.As(err, &kind):
		return badRequest("%s: %s: want %s, got %s", what, name, kind.Type, kind.Value)
	}
	return badRequest("%s: %s: %s", what, name, err)
}

// listOf reads a JSON array by reading each element.
func listOf(each func(text []byte) error) func([]byte) error {
	return func(b []byte) error {
		if b[0] != '[' {
			return badRequest("want an array")
		}
		for i := skipSpace(b, 1); b[i] != ']'; {
			end, err := skipValue(b, i)
			if err != nil {
				return err
			}
			if err := each(b[i:end]); err != nil {
				return err
			}
			if i = skipSpace(b, end); b[i] == ',' {
				i = skipSpace(b, i+1)
			}
		}
		return nil
	}
}

// checkName refuses names that could not come out as they went in.
func checkName(what, name string) error {
	switch {
	case name == "":
		return failure(400, api.CodeBadName, "the %s is empty", what)
	case len(name) > maxNameLen:
		return failure(400, api.CodeBadName, "the %s is %d bytes long, at most %d are allowed", what, len(name), maxNameLen)
	case !utf8.ValidString(name):
		return failure(400, api.CodeBadName, "the %s is not valid UTF-8, which JSON could not show; encode it, for instance as base64url", what)
	}
	return nil
}

// failure returns the error that is answered with status and code.
func failure(status int, code api.Code, format string, args ...any) *api.Error {
	return &api.Error{StatusCode: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *api.Error {
	return failure(400, api.CodeBadRequest, format, args...)
}
