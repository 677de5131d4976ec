package load

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// ErrInvalid means that bytes are not a load.
var ErrInvalid = errors.New("not a load")

// Load says how busy a member is.
type Load struct {
	CPU         float64 // share of the whole machine in use, 0 to 1
	InFlight    int     // requests, tunnels and streams that have not ended
	RequestRate float64 // requests per second
}

// size is the length of the wire form: a format byte, CPU in 1/65535, requests
// in flight, and the rate in 1/16 per second.
const (
	size   = 1 + 2 + 4 + 4
	format = 1
)

// MarshalBinary returns the wire form. Values out of range are brought to the
// nearest that can be said.
func (l Load) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, size)
	b = append(b, format)
	b = binary.BigEndian.AppendUint16(b, uint16(math.Round(clamp(l.CPU, 1)*math.MaxUint16)))
	b = binary.BigEndian.AppendUint32(b, uint32(clamp(float64(l.InFlight), math.MaxUint32)))
	return binary.BigEndian.AppendUint32(b, uint32(math.Round(clamp(l.RequestRate*16, math.MaxUint32)))), nil
}

// UnmarshalBinary is the inverse of MarshalBinary; it returns ErrInvalid for
// anything else.
func (l *Load) UnmarshalBinary(b []byte) error {
	if len(b) != size || b[0] != format {
		return ErrInvalid
	}
	l.CPU = float64(binary.BigEndian.Uint16(b[1:])) / math.MaxUint16
	l.InFlight = int(binary.BigEndian.Uint32(b[3:]))
	l.RequestRate = float64(binary.BigEndian.Uint32(b[7:])) / 16
	return nil
}

func clamp(v, limit float64) float64 {
	if math.IsNaN(v) || v < 0 {
		return 0
	}
	return min(v, limit)
}

// Compare orders loads, the lighter first: by processor, where the two differ
// by a twentieth of the machine or more, then by requests in flight, then by
// rate. Small differences of the processor are noise.
func Compare(a, b Load) int {
	if d := step(a.CPU) - step(b.CPU); d != 0 {
		return d
	}
	if d := cmp.Compare(a.InFlight, b.InFlight); d != 0 {
		return d
	}
	return cmp.Compare(a.RequestRate, b.RequestRate)
}

// step makes Compare an order: comparing differences with a tolerance would
// not be transitive.
func step(cpu float64) int { return int(clamp(cpu, 1) * 20) }

// Differs reports whether b is worth telling others who know a.
func Differs(a, b Load) bool {
	return math.Abs(a.CPU-b.CPU) >= 0.02 ||
		far(float64(a.InFlight), float64(b.InFlight), 2) ||
		far(a.RequestRate, b.RequestRate, 1)
}

// far reports a change of a tenth, and of least at least.
func far(a, b, least float64) bool {
	d := math.Abs(a - b)
	return d >= least && d >= 0.1*max(a, b)
}

// Average is an exponentially decaying mean: what was measured one half-life
// ago counts half.
type Average struct {
	HalfLife time.Duration

	value float64
	last  time.Time
}

// Add takes in a measurement and returns the mean.
func (a *Average) Add(v float64, now time.Time) float64 {
	if a.last.IsZero() || a.HalfLife <= 0 {
		a.value, a.last = v, now
		return v
	}
	if dt := now.Sub(a.last); dt > 0 {
		keep := math.Exp2(-float64(dt) / float64(a.HalfLife))
		a.value = keep*a.value + (1-keep)*v
		a.last = now
	}
	return a.value
}

// Value returns the mean.
func (a *Average) Value() float64 { return a.value }
