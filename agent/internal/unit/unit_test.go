package unit

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration_verdicts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"30s": nil, "1h30m": nil, "1.5h": nil, "250ms": nil, "0s": nil,
		"30": ErrNoUnit, "0": ErrNoUnit, "1e9": ErrNoUnit, "0.5": ErrNoUnit,
		"": ErrMalformed, "30 s": ErrMalformed, "1d": ErrMalformed, "null": ErrMalformed, "NaN": ErrMalformed, "+1s": ErrMalformed, "s": ErrMalformed,
		"-1s": ErrRange, "-1": ErrRange, "999999h": ErrRange, "99999999999999h": ErrMalformed,
	} {
		if _, err := ParseDuration(text); !errors.Is(err, want) {
			t.Errorf("ParseDuration(%q) = %v, want %v", text, err, want)
		}
	}
}

func TestParseSize_verdicts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"512B": 512, "1KiB": 1024, "1MiB": 1 << 20, "10MB": 10_000_000, "1TiB": 1 << 40, "0B": 0} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"1048576": ErrNoUnit, "": ErrMalformed, "1 MiB": ErrMalformed, "1.5MiB": ErrMalformed, "MiB": ErrMalformed, "+1B": ErrMalformed,
		"-1B": ErrRange, "9999TiB": ErrRange, "99999999999999999999B": ErrRange,
	} {
		if _, err := ParseSize(text); !errors.Is(err, want) {
			t.Errorf("ParseSize(%q) = %v, want %v", text, err, want)
		}
	}
}

func TestFormat_readsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(MaxDuration)).Draw(t, "duration"))
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%s reads back as %s, %v", FormatDuration(d), got, err)
		}
		n := rapid.Int64Range(0, MaxSize).Draw(t, "size")
		if got, err := ParseSize(FormatSize(n)); err != nil || got != n {
			t.Fatalf("%s reads back as %d, %v", FormatSize(n), got, err)
		}
	})
}

func TestFormatDuration_dropsZeroParts(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{30 * time.Minute: "30m", 24 * time.Hour: "24h", 90 * time.Second: "1m30s", 0: "0s", 10 * time.Second: "10s"} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration = %q, want %q", got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"30s", "1MiB", "", "-1", "1e400", "0x1p-2s", "1h1h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil && (d < 0 || d > MaxDuration) {
			t.Fatalf("accepted %q as %s", s, d)
		}
		if n, err := ParseSize(s); err == nil && (n < 0 || n > MaxSize) {
			t.Fatalf("accepted %q as %d", s, n)
		}
	})
}
