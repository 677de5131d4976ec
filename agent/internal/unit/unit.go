package unit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits that hold for every option: what is above them is a slip of the keyboard.
const (
	MaxDuration = 10 * 365 * 24 * time.Hour
	MaxSize     = 1 << 40
)

// The ways in which a quantity can be wrong. Callers show the wrapped text.
var (
	ErrNoUnit    = errors.New("add a unit")
	ErrMalformed = errors.New("malformed")
	ErrRange     = errors.New("out of range")
)

// ParseDuration reads "30s", "1h30m" or "250ms". Unlike time.ParseDuration it
// takes no sign and no bare zero.
func ParseDuration(s string) (time.Duration, error) {
	const example = `as in "30s", "5m" or "1h30m"`
	switch {
	case s == "":
		return 0, fmt.Errorf("%w: an empty duration; write a number with a unit, %s", ErrMalformed, example)
	case bareNumber(s):
		return 0, fmt.Errorf("%w, %s", ErrNoUnit, example)
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("%w: a duration cannot be negative", ErrRange)
	}
	d, err := time.ParseDuration(s)
	if err != nil || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%w: not a duration; write numbers with the units h, m, s or ms and no spaces, %s", ErrMalformed, example)
	}
	if d > MaxDuration {
		return 0, fmt.Errorf("%w: at most %s", ErrRange, FormatDuration(MaxDuration))
	}
	return d, nil
}

// FormatDuration writes d without the zero parts that time.Duration prints:
// "30m", not "30m0s".
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

type sizeUnit struct {
	suffix string
	bytes  uint64
}

// sizeUnits is ordered so that "B" is tried last: every other suffix ends in it.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"KB", 1e3}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
	}
}

// ParseSize reads "512B", "64KiB", "1MiB" or "10MB" (powers of ten without the i).
func ParseSize(s string) (int64, error) {
	const example = `as in "64KiB" or "1MiB"`
	switch {
	case s == "":
		return 0, fmt.Errorf("%w: an empty size; write a number with a unit, %s", ErrMalformed, example)
	case bareNumber(s):
		return 0, fmt.Errorf("%w, %s", ErrNoUnit, example)
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("%w: a size cannot be negative", ErrRange)
	}
	for _, u := range sizeUnits() {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if errors.Is(err, strconv.ErrRange) || (err == nil && n > MaxSize/u.bytes) {
			return 0, fmt.Errorf("%w: at most %s", ErrRange, FormatSize(MaxSize))
		}
		if err != nil || strings.HasPrefix(digits, "+") {
			break
		}
		return int64(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%w: not a size; write a whole number with the unit B, KiB, MiB or GiB and no spaces, %s", ErrMalformed, example)
}

// FormatSize writes n with the largest binary unit that divides it.
func FormatSize(n int64) string {
	for _, u := range []sizeUnit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n != 0 && n%int64(u.bytes) == 0 {
			return strconv.FormatInt(n/int64(u.bytes), 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

func bareNumber(s string) bool {
	f, err := strconv.ParseFloat(s, 64)
	return (err == nil || errors.Is(err, strconv.ErrRange)) && !math.IsNaN(f) && !math.IsInf(f, 0) && !strings.HasPrefix(s, "-")
}
