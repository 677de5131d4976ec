package session

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
)

// maxDigits is the longest text of a whole number that can still lead to a sum
// of 64 bits. Longer ones are not worked out at all: that would take long.
const maxDigits = 40

// increment adds req.Value to the attribute, both whole numbers of at most 64
// bits or both taken as floating point.
func increment(rec *Record, req *Request) ([]byte, *Response) {
	old := []byte("0")
	if rec != nil {
		if a := rec.Attr(req.Name); a != nil {
			if a.Type != "" {
				return nil, fail(Conflict, "not_a_number", "the attribute is binary, not a number")
			}
			old = bytes.TrimSpace(a.Value)
		}
	}
	if !isNumber(old) {
		return nil, fail(Conflict, "not_a_number", "the attribute is not a number")
	}
	if !isNumber(req.Value) {
		return nil, fail(Invalid, "bad_number", "By must be a number")
	}
	if isWhole(old) && isWhole(req.Value) {
		if len(old) > maxDigits || len(req.Value) > maxDigits {
			return nil, fail(Conflict, "out_of_range", "the sum does not fit in 64 bits")
		}
		a, _ := new(big.Int).SetString(string(old), 10)
		b, _ := new(big.Int).SetString(string(req.Value), 10)
		if a.Add(a, b); !a.IsInt64() {
			return nil, fail(Conflict, "out_of_range", "the sum does not fit in 64 bits")
		}
		return []byte(a.String()), nil
	}
	x, errX := strconv.ParseFloat(string(old), 64)
	y, errY := strconv.ParseFloat(string(req.Value), 64)
	sum := x + y
	if errX != nil || errY != nil || math.IsInf(sum, 0) {
		return nil, fail(Conflict, "out_of_range", "the sum is not a finite number of 64 bits")
	}
	return formatFloat(sum), nil
}

// isNumber reports whether b is the text of a JSON number.
func isNumber(b []byte) bool {
	return len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9') && json.Valid(b)
}

func isWhole(number []byte) bool { return !bytes.ContainsAny(number, ".eE") }

// formatFloat writes f as browsers and encoding/json do: with an exponent only
// where the number is very large or very small.
func formatFloat(f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(nil, f, format, -1, 64)
}
