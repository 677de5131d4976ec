package proxyproto

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
)

// signature begins every header of version 2: no text, no TLS, no HTTP/2.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

const (
	fixed    = 16 // signature, command, family, length
	cmdLocal = 0x20
	cmdProxy = 0x21

	famUnspec = 0x00
	famTCP4   = 0x11
	famUDP4   = 0x12
	famTCP6   = 0x21
	famUDP6   = 0x22
	famStream = 0x31
	famDgram  = 0x32

	fieldCRC = 0x03
)

// readBytes reads the rest of a header of version 2.
func readBytes(r io.Reader, buf []byte) (h Header, err error) {
	if buf, err = more(r, buf, fixed-len(buf)); err != nil {
		return h, err
	}
	length := int(binary.BigEndian.Uint16(buf[fixed-2:]))
	if fixed+length > MaxHeader {
		return h, malformed(fmt.Sprintf("%d bytes are more than %d", fixed+length, MaxHeader))
	}
	if buf, err = more(r, buf, length); err != nil {
		return h, err
	}
	return parseBytes(buf)
}

func parseBytes(buf []byte) (h Header, err error) {
	rest := buf[fixed:]
	switch buf[12] {
	case cmdLocal:
		return Header{Local: true}, nil // the rest does not count
	case cmdProxy:
	default:
		return h, malformed("no such version or command")
	}
	addresses := 0
	switch family := buf[13]; family {
	case famUnspec:
		return h, nil
	case famTCP4, famUDP4:
		addresses = 4 + 4 + 2 + 2
	case famTCP6, famUDP6:
		addresses = 16 + 16 + 2 + 2
	case famStream, famDgram:
		addresses = 108 + 108
	default:
		return h, malformed("no such family")
	}
	if len(rest) < addresses {
		return h, malformed("the addresses are cut short")
	}
	switch addresses {
	case 12:
		h.Source = end(rest[0:4], rest[8:10])
		h.Destination = end(rest[4:8], rest[10:12])
	case 36:
		h.Source = end(rest[0:16], rest[32:34])
		h.Destination = end(rest[16:32], rest[34:36])
	}
	if err := checkFields(buf, fixed+addresses); err != nil {
		return Header{}, err
	}
	return h, nil
}

func end(address, port []byte) netip.AddrPort {
	a, _ := netip.AddrFromSlice(address) // of the right length
	return plain(netip.AddrPortFrom(a, binary.BigEndian.Uint16(port)))
}

// checkFields walks through what follows the addresses, and compares the
// checksum where there is one.
func checkFields(buf []byte, at int) error {
	seen := false
	for at < len(buf) {
		if len(buf)-at < 3 {
			return malformed("a field is cut short")
		}
		kind, length := buf[at], int(binary.BigEndian.Uint16(buf[at+1:]))
		at += 3
		if len(buf)-at < length {
			return malformed("a field is cut short")
		}
		if kind == fieldCRC {
			if length != 4 || seen {
				return malformed("no such checksum")
			}
			seen = true
			if sum := binary.BigEndian.Uint32(buf[at:]); sum != sumWithout(buf, at) {
				return malformed("the checksum differs")
			}
		}
		at += length
	}
	return nil
}

// sumWithout is the checksum of the header with the four bytes at its own place
// taken as zero.
func sumWithout(buf []byte, at int) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, buf[:at])
	sum = crc32.Update(sum, table, make([]byte, 4))
	return crc32.Update(sum, table, buf[at+4:])
}

func appendBytes(dst []byte, local bool, src, to netip.AddrPort) []byte {
	dst = append(dst, signature...)
	if local {
		return append(dst, cmdLocal, famUnspec, 0, 0)
	}
	if !src.IsValid() {
		return append(dst, cmdProxy, famUnspec, 0, 0)
	}
	if src.Addr().Is4() {
		dst = append(dst, cmdProxy, famTCP4, 0, 12)
	} else {
		dst = append(dst, cmdProxy, famTCP6, 0, 36)
	}
	dst = append(dst, src.Addr().AsSlice()...)
	dst = append(dst, to.Addr().AsSlice()...)
	dst = binary.BigEndian.AppendUint16(dst, src.Port())
	return binary.BigEndian.AppendUint16(dst, to.Port())
}
