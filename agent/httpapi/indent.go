package httpapi

import "bytes"

// maxIndent keeps a deeply nested value from growing with the square of its
// depth.
const maxIndent = 64

// indent spreads a JSON text over lines. It changes white space between tokens
// only.
func indent(text []byte) []byte {
	out := make([]byte, 0, len(text)+len(text)/2)
	depth := 0
	newline := func() {
		out = append(out, '\n')
		out = append(out, bytes.Repeat([]byte("  "), min(depth, maxIndent))...)
	}
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case ' ', '\n', '\t', '\r':
			i++
		case '"':
			end, _ := skipString(text, i)
			out = append(out, text[i:end]...)
			i = end
		case '{', '[':
			out = append(out, c)
			if i = skipSpace(text, i+1); i < len(text) && text[i] == c+2 {
				out = append(out, text[i])
				i++
				continue
			}
			depth++
			newline()
		case '}', ']':
			depth--
			newline()
			out = append(out, c)
			i++
		case ',':
			out = append(out, c)
			newline()
			i++
		case ':':
			out = append(out, ':', ' ')
			i++
		default:
			out = append(out, c)
			i++
		}
	}
	return append(out, '\n')
}
