package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestReader_roundTrip writes random values one after the other and reads them
// back in the same order.
func TestReader_roundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b []byte
		var reads []func(*Reader) bool // whether the value came back
		for range rapid.IntRange(0, 20).Draw(t, "values") {
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				v := rapid.Uint64().Draw(t, "uvarint")
				b = binary.AppendUvarint(b, v)
				reads = append(reads, func(r *Reader) bool { return r.Uvarint() == v })
			case 1:
				v := rapid.Int64().Draw(t, "varint")
				b = binary.AppendVarint(b, v)
				reads = append(reads, func(r *Reader) bool { return r.Varint() == v })
			case 2:
				v := rapid.Bool().Draw(t, "bool")
				b = AppendBool(b, v)
				reads = append(reads, func(r *Reader) bool { return r.Bool() == v })
			case 3:
				v := rapid.String().Draw(t, "string")
				b = AppendBytes(b, v)
				reads = append(reads, func(r *Reader) bool { return r.String(len(v)) == v })
			case 4:
				v := rapid.Uint64().Draw(t, "fixed")
				b = binary.LittleEndian.AppendUint64(b, v)
				reads = append(reads, func(r *Reader) bool { return r.Uint64() == v })
			case 6:
				v := rapid.SliceOfN(rapid.Bool(), 0, 8).Draw(t, "flags")
				b = append(b, Flags(v...))
				reads = append(reads, func(r *Reader) bool {
					f := r.Flags(len(v))
					for i := range v {
						if v[i] != (f>>i&1 == 1) {
							return false
						}
					}
					return true
				})
			case 5:
				v := rapid.Byte().Draw(t, "byte")
				b = append(b, v)
				reads = append(reads, func(r *Reader) bool { return r.Byte() == v })
			}
		}
		r := NewReader(b)
		for i, read := range reads {
			if !read(r) {
				t.Fatalf("value %d came back as another one", i)
			}
		}
		if err := r.Done(); err != nil {
			t.Fatalf("Done: %v", err)
		}
		// Cut anywhere, some read fails, and it stays failed.
		if len(b) == 0 {
			return
		}
		r = NewReader(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")])
		for _, read := range reads {
			read(r)
		}
		if r.Err() == nil || !errors.Is(r.Done(), ErrMalformed) {
			t.Fatalf("a cut buffer was read whole, err %v", r.Err())
		}
	})
}

func TestReader_limits(t *testing.T) {
	t.Parallel()
	long := AppendBytes(nil, make([]byte, 11))
	huge := binary.AppendUvarint(nil, math.MaxUint64)
	for name, read := range map[string]func() *Reader{
		"field over its limit":    func() *Reader { r := NewReader(long); r.Bytes(10); return r },
		"field longer than rest":  func() *Reader { r := NewReader(long[:5]); r.Bytes(100); return r },
		"field of 2^64-1":         func() *Reader { r := NewReader(huge); r.Bytes(math.MaxInt); return r },
		"count beyond the rest":   func() *Reader { r := NewReader(append([]byte{3}, make([]byte, 8)...)); r.Count(3); return r },
		"count of 2^64-1":         func() *Reader { r := NewReader(huge); r.Count(0); return r },
		"number over its limit":   func() *Reader { r := NewReader([]byte{9}); r.UpTo(8); return r },
		"array cut off":           func() *Reader { r := NewReader(long[:9]); r.Array16(); return r },
		"negative fixed":          func() *Reader { r := NewReader(long); r.Fixed(-1); return r },
		"flags":                   func() *Reader { r := NewReader([]byte{4}); r.Flags(2); return r },
		"boolean 2":               func() *Reader { r := NewReader([]byte{2}); r.Bool(); return r },
		"varint without an end":   func() *Reader { r := NewReader(bytes.Repeat([]byte{0xff}, 12)); r.Uvarint(); return r },
		"empty":                   func() *Reader { r := NewReader(nil); r.Byte(); return r },
		"bytes left over at Done": func() *Reader { r := NewReader([]byte{1}); r.Done(); return r },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := read()
			if !errors.Is(r.Err(), ErrMalformed) {
				t.Fatalf("err = %v, want ErrMalformed", r.Err())
			}
			if r.Len() != 0 || r.Byte() != 0 || r.Uvarint() != 0 || r.Bytes(9) != nil || r.Count(1) != 0 {
				t.Error("a failed reader still yields values")
			}
		})
	}
}

// TestReader_resultsDoNotGrowIntoBuffer: appending to what Bytes and Fixed
// return must not overwrite what follows in the buffer.
func TestReader_resultsDoNotGrowIntoBuffer(t *testing.T) {
	t.Parallel()
	r := NewReader([]byte{1, 'a', 'b', 'c'})
	_ = append(r.Bytes(9), 'x')
	_ = append(r.Fixed(1), 'y')
	if c := r.Byte(); c != 'c' {
		t.Errorf("the buffer was changed to %q", c)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6}, AppendBytes([]byte{1, 2, 3}, "four"))
	f.Fuzz(func(t *testing.T, script, buf []byte) {
		r := NewReader(buf)
		left := r.Len()
		for _, op := range script {
			switch op % 8 {
			case 0:
				r.Uvarint()
			case 1:
				r.Varint()
			case 2:
				r.Byte()
			case 3:
				r.Bool()
			case 4:
				if b := r.Fixed(int(op)); r.Err() == nil && len(b) != int(op) {
					t.Fatalf("Fixed(%d) returned %d bytes", op, len(b))
				}
			case 5:
				r.Uint64()
			case 6:
				if b := r.Bytes(int(op)); len(b) > int(op) {
					t.Fatalf("Bytes(%d) returned %d", op, len(b))
				}
			case 7:
				if n := r.Count(int(op)); n*max(int(op), 1) > r.Len() {
					t.Fatalf("Count(%d) returned %d with %d left", op, n, r.Len())
				}
			}
			if r.Len() > left {
				t.Fatal("the buffer grew")
			}
			left = r.Len()
		}
		if err := r.Err(); err != nil && (r.Len() != 0 || !errors.Is(err, ErrMalformed)) {
			t.Fatalf("err %v with %d bytes left", err, r.Len())
		}
	})
}
