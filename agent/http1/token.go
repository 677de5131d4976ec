package http1

// class tells what a byte may be part of.
type class uint8

const (
	token  class = 1 << iota // a field name or a method
	value                    // a field value
	target                   // a request target
	reg                      // a registered name in Host
)

// classes is filled once at start and only read afterwards.
var classes = func() (t [256]class) {
	for c := range t {
		b := byte(c)
		alnum := b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
		if alnum || in(b, "!#$%&'*+-.^_`|~") {
			t[c] |= token
		}
		if alnum || in(b, "-._~%!$&'()*+,;=") {
			t[c] |= reg
		}
		if b >= ' ' && b != 0x7f || b == '\t' {
			t[c] |= value
		}
		if b > ' ' && b != 0x7f && b != '#' {
			t[c] |= target
		}
	}
	return t
}()

func in(b byte, set string) bool {
	for i := range len(set) {
		if set[i] == b {
			return true
		}
	}
	return false
}

// all reports whether every byte of s is of class k.
func all(s []byte, k class) bool {
	for _, b := range s {
		if classes[b]&k == 0 {
			return false
		}
	}
	return true
}

// trim removes spaces and tabs at both ends, the optional whitespace of the
// grammar and nothing else.
func trim(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// EqualFold compares with a lower-case ASCII word, ignoring case. Bytes beyond
// ASCII are equal to nothing.
func EqualFold(s []byte, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i, b := range s {
		if b >= 'A' && b <= 'Z' {
			b |= 0x20
		}
		if b != lower[i] {
			return false
		}
	}
	return true
}

// EachToken calls f with every element of a comma-separated list, trimmed,
// empty ones left out, until f returns false.
func EachToken(list []byte, f func([]byte) bool) {
	for len(list) > 0 {
		i := 0
		for i < len(list) && list[i] != ',' {
			i++
		}
		if one := trim(list[:i]); len(one) > 0 && !f(one) {
			return
		}
		list = list[min(i+1, len(list)):]
	}
}
