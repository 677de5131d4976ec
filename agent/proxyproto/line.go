package proxyproto

import (
	"bytes"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// maxLine is the longest line of version 1, with its end.
const maxLine = 107

const (
	lineTCP4    = "PROXY TCP4 "
	lineTCP6    = "PROXY TCP6 "
	lineUnknown = "PROXY UNKNOWN"
	lineEnd     = "\r\n"
)

// readLine reads the rest of a header of version 1. What follows it must stay
// unread, so each read takes only as much as must still be part of the line.
func readLine(r io.Reader, buf []byte) (h Header, err error) {
	for {
		missing := lineMissing(buf)
		switch {
		case missing < 0:
			return h, malformed("neither version 1 nor version 2")
		case missing == 0:
			return parseLine(string(buf[:len(buf)-len(lineEnd)]))
		case len(buf)+missing > maxLine:
			return h, malformed("the line does not end")
		}
		if buf, err = more(r, buf, missing); err != nil {
			return h, err
		}
	}
}

// lineMissing returns how many bytes must come at least for a line that begins
// with buf: 0 when it has ended, -1 when nothing can make it one.
func lineMissing(buf []byte) int {
	cr := bytes.IndexByte(buf, '\r')
	if lf := bytes.IndexByte(buf, '\n'); lf >= 0 {
		if cr == len(buf)-2 && lf == len(buf)-1 {
			return 0
		}
		return -1
	}
	switch {
	case cr == len(buf)-1:
		return 1
	case cr >= 0:
		return -1
	case len(buf) < len(lineUnknown) && strings.HasPrefix(lineUnknown, string(buf)):
		return len(lineUnknown) - len(buf) + len(lineEnd)
	case bytes.HasPrefix(buf, []byte(lineUnknown)):
		return len(lineEnd)
	case bytes.HasPrefix(buf, []byte(lineTCP4)):
		return fieldsMissing(buf[len(lineTCP4):], len("0.0.0.0"))
	case bytes.HasPrefix(buf, []byte(lineTCP6)):
		return fieldsMissing(buf[len(lineTCP6):], len("::"))
	}
	return -1
}

// fieldsMissing is lineMissing for what follows the family: two addresses of at
// least the given length, two ports.
func fieldsMissing(fields []byte, address int) int {
	shortest := [4]int{address, address, 1, 1}
	n := bytes.Count(fields, []byte{' '})
	if n >= len(shortest) || bytes.Contains(fields, []byte("  ")) {
		return -1
	}
	last := len(fields) - 1 - bytes.LastIndexByte(fields, ' ')
	missing := max(shortest[n]-last, 0) + len(lineEnd)
	for _, length := range shortest[n+1:] {
		missing += 1 + length
	}
	return missing
}

func parseLine(line string) (h Header, err error) {
	if rest, ok := strings.CutPrefix(line, lineUnknown); ok {
		if rest != "" && rest[0] != ' ' {
			return h, malformed("no such family")
		}
		return h, nil // whatever is said behind it does not count
	}
	f := strings.Split(line, " ")
	if len(f) != 6 {
		return h, malformed("a line has two addresses and two ports")
	}
	v4 := f[1] == "TCP4"
	var ok [2]bool
	h.Source, ok[0] = parseEnd(f[2], f[4], v4)
	h.Destination, ok[1] = parseEnd(f[3], f[5], v4)
	if !ok[0] || !ok[1] {
		return Header{}, malformed("an address or a port of the line is none")
	}
	return h, nil
}

func parseEnd(address, port string, v4 bool) (netip.AddrPort, bool) {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Is4() != v4 || a.Zone() != "" {
		return netip.AddrPort{}, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || port != strconv.FormatUint(n, 10) {
		return netip.AddrPort{}, false
	}
	return plain(netip.AddrPortFrom(a, uint16(n))), true
}

func appendLine(dst []byte, src, to netip.AddrPort) []byte {
	if !src.IsValid() {
		return append(append(dst, lineUnknown...), lineEnd...)
	}
	family := lineTCP6
	if src.Addr().Is4() {
		family = lineTCP4
	}
	dst = src.Addr().AppendTo(append(dst, family...))
	dst = to.Addr().AppendTo(append(dst, ' '))
	dst = strconv.AppendUint(append(dst, ' '), uint64(src.Port()), 10)
	dst = strconv.AppendUint(append(dst, ' '), uint64(to.Port()), 10)
	return append(dst, lineEnd...)
}
