package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrDuration means that a text is not a duration as Rondel reads them.
var ErrDuration = errors.New("not a duration")

// Duration is a length of time that is written with its unit, like "30m" or
// "1h30m". A bare number is refused, because half of those who write one mean
// seconds and the other half something else.
type Duration time.Duration

// maxDuration is what nobody means: ten years.
const maxDuration = Duration(10 * 365 * 24 * time.Hour)

// ParseDuration reads a duration that is not negative, and not beyond ten
// years. It takes and refuses what the agent's configuration does.
func ParseDuration(s string) (Duration, error) {
	if s == "" {
		return 0, fmt.Errorf(`"": %w: write a number with a unit, like "30s"`, ErrDuration)
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && !math.IsNaN(f) {
		return 0, fmt.Errorf(`%q: %w: add a unit, like "%ss" or "%sm"`, s, ErrDuration, s, s)
	}
	d, err := time.ParseDuration(s)
	if err != nil || s[0] == '+' {
		return 0, fmt.Errorf(`%q: %w: write numbers with the units ms, s, m or h, like "1h30m"`, s, ErrDuration)
	}
	if s[0] == '-' {
		return 0, fmt.Errorf("%q: %w: it must not be negative", s, ErrDuration)
	}
	if Duration(d) > maxDuration {
		return 0, fmt.Errorf("%q: %w: the longest is %s", s, ErrDuration, maxDuration)
	}
	return Duration(d), nil
}

// String returns the shortest usual form: "30m", not "30m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalText returns the form that [ParseDuration] reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON refuses everything but a string with a unit.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if len(b) == 0 || b[0] != '"' {
		if len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9') {
			return fmt.Errorf(`%s: %w: a bare number has no unit, write "%ss" or "%sm"`, b, ErrDuration, b, b)
		}
		return fmt.Errorf(`%w: write a string with a unit, like "30s"`, ErrDuration)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = v
	return nil
}
