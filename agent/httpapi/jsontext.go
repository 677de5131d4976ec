package httpapi

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep arrays and objects of a value may nest: what most JSON
// libraries can read again. A body has the value in an object of its own, and
// that often in another.
const (
	maxDepth = 10_000
	wrapping = 2
)

// The standard decoder would lose what the contract promises to keep: numbers'
// text, lone surrogates, key order. So values are only checked, never decoded,
// and without recursion, so that no depth can exhaust a stack.

// syntaxError says what is wrong with a JSON text, and where.
type syntaxError struct {
	at  int
	msg string
}

// Error names the byte at which reading failed.
func (e *syntaxError) Error() string {
	return fmt.Sprintf("broken JSON at byte %d: %s", e.at, e.msg)
}

// checkText checks that b is one JSON value in UTF-8 with nothing but white
// space around it, and returns it without that.
func checkText(b []byte) ([]byte, error) { return checkTo(b, maxDepth) }

// checkBody is checkText for a body that wraps a value.
func checkBody(b []byte) ([]byte, error) { return checkTo(b, maxDepth+wrapping) }

func checkTo(b []byte, depth int) ([]byte, error) {
	if !utf8.Valid(b) {
		return nil, &syntaxError{0, "the text is not valid UTF-8; send binary data as {\"Base64\":…,\"ContentType\":…} or as a raw attribute"}
	}
	start := skipSpace(b, 0)
	end, err := skipTo(b, start, depth)
	if err != nil {
		return nil, err
	}
	if rest := skipSpace(b, end); rest != len(b) {
		return nil, &syntaxError{rest, "something follows the value"}
	}
	return b[start:end], nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the value that starts at b[i], in what was
// checked or is too large for that.
func skipValue(b []byte, i int) (int, error) { return skipTo(b, i, maxDepth+wrapping) }

func skipTo(b []byte, i, depth int) (int, error) {
	var stack []byte // of '{' and '['
	for {
		// A value starts here.
		i = skipSpace(b, i)
		if i >= len(b) {
			return i, &syntaxError{i, "it ends where a value should start"}
		}
		var err error
		opened := false
		switch c := b[i]; c {
		case '{', '[':
			if len(stack) == depth {
				return i, &syntaxError{i, fmt.Sprintf("a value nests deeper than %d", maxDepth)}
			}
			stack = append(stack, c)
			i = skipSpace(b, i+1)
			opened = i >= len(b) || b[i] != c+2 // ']' and '}' are two after their opening
		case '"':
			i, err = skipString(b, i)
		default:
			i, err = skipScalar(b, i)
		}
		if err != nil {
			return i, err
		}
		if opened {
			if stack[len(stack)-1] == '{' {
				if i, err = skipKey(b, i); err != nil {
					return i, err
				}
			}
			continue
		}
		// A value has ended, or an empty array or object is about to.
		if i, err = skipEnds(b, i, &stack); err != nil || len(stack) == 0 {
			return i, err
		}
	}
}

// skipEnds closes what ends at i. It returns where the next value starts, or,
// with an empty stack, the end of the outermost value.
func skipEnds(b []byte, i int, stack *[]byte) (int, error) {
	for len(*stack) > 0 {
		i = skipSpace(b, i)
		if i >= len(b) {
			return i, &syntaxError{i, "it ends inside an array or object"}
		}
		top := (*stack)[len(*stack)-1]
		switch b[i] {
		case top + 2:
			*stack = (*stack)[:len(*stack)-1]
			i++
		case ',':
			if top == '{' {
				return skipKey(b, skipSpace(b, i+1))
			}
			return i + 1, nil
		default:
			return i, &syntaxError{i, "a comma or the closing bracket is missing"}
		}
	}
	return i, nil
}

// skipKey passes an object's key and its colon.
func skipKey(b []byte, i int) (int, error) {
	if i >= len(b) || b[i] != '"' {
		return i, &syntaxError{i, "a key in quotes is missing"}
	}
	i, err := skipString(b, i)
	if err != nil {
		return i, err
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return i, &syntaxError{i, "a colon is missing"}
	}
	return i + 1, nil
}

func skipString(b []byte, i int) (int, error) {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1, nil
		case c < 0x20:
			return i, &syntaxError{i, "a control character in a string must be escaped"}
		case c == '\\':
			i++
			if i >= len(b) {
				return i, &syntaxError{i, "it ends inside a string"}
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if _, ok := hex4(b, i+1); !ok {
					return i, &syntaxError{i, "\\u wants four hexadecimal digits"}
				}
				i += 4
			default:
				return i, &syntaxError{i, "unknown escape in a string"}
			}
		}
	}
	return i, &syntaxError{i, "it ends inside a string"}
}

func skipScalar(b []byte, i int) (int, error) {
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(b[i:], []byte(word)) {
			return i + len(word), nil
		}
	}
	end, ok := skipNumber(b, i)
	if !ok {
		return i, &syntaxError{i, "no value starts like this"}
	}
	return end, nil
}

func skipNumber(b []byte, i int) (int, bool) {
	digits := func() bool {
		start := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return i, false
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return i, false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return i, false
		}
	}
	return i, true
}

// unquote decodes a string that skipString has passed. It reports false where
// the string holds half a surrogate pair, which is no text.
func unquote(b []byte) (string, bool) {
	b = b[1 : len(b)-1]
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b), true
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			out = append(out, b[i])
			continue
		}
		i++
		switch b[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, _ := hex4(b, i+1)
			i += 4
			if utf16.IsSurrogate(r) {
				if i+2 >= len(b) || b[i+1] != '\\' || b[i+2] != 'u' {
					return "", false
				}
				low, ok := hex4(b, i+3)
				if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
					return "", false
				}
				i += 6
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, b[i])
		}
	}
	return string(out), true
}

func hex4(b []byte, i int) (rune, bool) {
	if i+4 > len(b) {
		return 0, false
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD: names
// are checked when they come in, so there is none to lose.
func appendString(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		plain := i
		for plain < len(s) && s[plain] >= 0x20 && s[plain] < 0x7f && s[plain] != '"' && s[plain] != '\\' {
			plain++
		}
		b = append(b, s[i:plain]...)
		if i = plain; i == len(s) {
			break
		}
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		i++
	}
	return append(b, '"')
}
