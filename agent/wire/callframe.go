package wire

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Kinds of frames on the call lane.
const (
	kindRequest  = 1 // id 8, method 1, time left in microseconds 8 (0: no limit), body
	kindCancel   = 2 // id 8
	kindResponse = 3 // id 8, length of code 1, code, body or message
)

type request struct {
	id     uint64
	method byte
	left   time.Duration // 0: no limit
	body   []byte
}

const requestHead = 8 + 1 + 8

func (r request) head(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.id)
	b = append(b, r.method)
	// The time left travels, not the deadline: clocks differ.
	left := uint64(0)
	if r.left > 0 {
		left = max(1, uint64(r.left/time.Microsecond))
	}
	return binary.BigEndian.AppendUint64(b, left)
}

// maxLeft keeps a peer's number within what time.Duration holds.
const maxLeft = 24 * time.Hour

func parseRequest(b []byte) (r request, err error) {
	if len(b) < requestHead {
		return r, fmt.Errorf("request of %d bytes: %w", len(b), errBadFrame)
	}
	r.id, r.method = binary.BigEndian.Uint64(b), b[8]
	left := binary.BigEndian.Uint64(b[9:])
	r.left = time.Duration(min(left, uint64(maxLeft/time.Microsecond))) * time.Microsecond
	r.body = b[requestHead:]
	return r, nil
}

func parseID(b []byte) (uint64, error) {
	if len(b) < 8 {
		return 0, fmt.Errorf("call without an id: %w", errBadFrame)
	}
	return binary.BigEndian.Uint64(b), nil
}

func appendResponseHead(b []byte, id uint64, code string) []byte {
	if len(code) > 255 {
		code = code[:255]
	}
	b = binary.BigEndian.AppendUint64(b, id)
	b = append(b, byte(len(code)))
	return append(b, code...)
}

// parseResponse returns an answer; its body is a slice of b.
func parseResponse(b []byte) (id uint64, code string, body []byte, err error) {
	if len(b) < 9 || len(b) < 9+int(b[8]) {
		return 0, "", nil, fmt.Errorf("answer of %d bytes: %w", len(b), errBadFrame)
	}
	n := 9 + int(b[8])
	return binary.BigEndian.Uint64(b), string(b[9:n]), b[n:], nil
}
