package member

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrInvalidMeta means that bytes are not the metadata of a member, or of a
// format that this version does not know.
var ErrInvalidMeta = errors.New("not the metadata of a member")

// Sizes of the metadata. Gossip carries it in every message about a member, so
// it is small and never grows with what the member serves.
const (
	MetaSize      = 91 // bytes that MarshalBinary returns
	MaxVersionLen = 24 // bytes of the software version that travel

	metaFormat = 1
)

const (
	flagWitness  = 1 << 0
	flagLeaving  = 1 << 1
	flagDeparted = 1 << 2
	flagsKnown   = flagWitness | flagLeaving | flagDeparted
)

// Meta is what a member tells about itself in each gossip message: who it is,
// where its other doors are, and the little that others must know before they
// may speak to it.
type Meta struct {
	Cluster   [16]byte // zero before the cluster is bootstrapped
	ID        ID
	Boot      Boot
	RPCPort   uint16
	HTTPPort  uint16
	ProxyPort uint16
	Expect    uint16 // bootstrap_expect; 0: does not take part in bootstrapping
	Witness   bool   // votes, holds no sessions
	Leaving   bool   // is being emptied, will go
	Departed  bool   // has said good-bye: what follows is no failure
	Epoch     uint64 // ring epoch that the member has applied
	Version   string // of the software, cut to MaxVersionLen bytes
}

// MarshalBinary returns the MetaSize bytes that travel. It fails on an invalid
// id.
func (m Meta) MarshalBinary() ([]byte, error) {
	if _, err := ParseID(string(m.ID)); err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	b := make([]byte, 0, MetaSize)
	b = append(b, metaFormat)
	b = append(b, m.Cluster[:]...)
	id := m.ID.Bytes()
	b = append(b, id[:]...)
	b = append(b, m.Boot[:]...)
	b = binary.BigEndian.AppendUint16(b, m.RPCPort)
	b = binary.BigEndian.AppendUint16(b, m.HTTPPort)
	b = binary.BigEndian.AppendUint16(b, m.ProxyPort)
	b = binary.BigEndian.AppendUint16(b, m.Expect)
	var flags byte
	for flag, on := range map[byte]bool{flagWitness: m.Witness, flagLeaving: m.Leaving, flagDeparted: m.Departed} {
		if on {
			flags |= flag
		}
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, m.Epoch)
	version := m.Version
	if len(version) > MaxVersionLen {
		version = version[:MaxVersionLen]
	}
	b = append(b, byte(len(version)))
	b = append(b, version...)
	return append(b, make([]byte, MetaSize-len(b))...), nil
}

// UnmarshalBinary is the inverse of MarshalBinary. It returns ErrInvalidMeta
// for anything that MarshalBinary of some version would not have made; a flag
// that only a newer version knows is ignored.
func (m *Meta) UnmarshalBinary(b []byte) error {
	switch {
	case len(b) == 0:
		return fmt.Errorf("empty: %w", ErrInvalidMeta)
	case b[0] != metaFormat:
		return fmt.Errorf("format %d: %w", b[0], ErrInvalidMeta)
	case len(b) != MetaSize:
		return fmt.Errorf("%d bytes: %w", len(b), ErrInvalidMeta)
	}
	var v Meta
	b = b[1:]
	copy(v.Cluster[:], b[:16])
	v.ID = IDFromBytes([16]byte(b[16:32]))
	copy(v.Boot[:], b[32:48])
	b = b[48:]
	v.RPCPort = binary.BigEndian.Uint16(b)
	v.HTTPPort = binary.BigEndian.Uint16(b[2:])
	v.ProxyPort = binary.BigEndian.Uint16(b[4:])
	v.Expect = binary.BigEndian.Uint16(b[6:])
	flags := b[8] & flagsKnown
	v.Witness = flags&flagWitness != 0
	v.Leaving = flags&flagLeaving != 0
	v.Departed = flags&flagDeparted != 0
	v.Epoch = binary.BigEndian.Uint64(b[9:])
	n := int(b[17])
	if n > MaxVersionLen {
		return fmt.Errorf("version of %d bytes: %w", n, ErrInvalidMeta)
	}
	v.Version = string(b[18 : 18+n])
	*m = v
	return nil
}
