package catalog

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/rondel-project/rondel/agent/load"
	"github.com/rondel-project/rondel/agent/member"
)

// Keys of the records that gossip carries.
const (
	MemberKey      = "m"
	instancePrefix = "i/"
)

// ErrMalformed means that a record of another member cannot be understood.
var ErrMalformed = errors.New("malformed record")

const (
	instanceFormat = 1
	memberFormat   = 1

	flagBackup      = 1 << 0
	flagMaintenance = 1 << 1
	flagDraining    = 1 << 2
)

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// encodeInstance returns the record of an instance. Member, name and final
// verdict are not in it: each reader has its own.
func encodeInstance(i Instance) []byte {
	b := []byte{instanceFormat}
	for _, s := range []string{i.ID, i.Name, i.Address} {
		b = appendText(b, s)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(i.Port))
	b = binary.BigEndian.AppendUint16(b, uint16(i.Weight))
	var flags byte
	if i.Backup {
		flags |= flagBackup
	}
	if i.Maintenance {
		flags |= flagMaintenance
	}
	if i.Draining {
		flags |= flagDraining
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(i.Load)))
	b = appendText(b, i.Reason)
	b = binary.AppendUvarint(b, uint64(len(i.Tags)))
	for _, t := range i.Tags {
		b = appendText(b, t)
	}
	b = binary.AppendUvarint(b, uint64(len(i.Checks)))
	for _, c := range i.Checks {
		b = appendText(append(b, rank(c.Health)), c.Reason)
	}
	return b
}

// decoder reads what encode functions wrote; after a fault it returns zeros.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return make([]byte, min(n, 8))
	}
	v := d.b[:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) text(limit int) string {
	n := d.uvarint()
	if n > uint64(limit) {
		d.bad = true
		return ""
	}
	return string(d.take(n))
}

func (d *decoder) count(limit uint64) int {
	n := d.uvarint()
	if n > limit {
		d.bad = true
		return 0
	}
	return int(n)
}

func decodeInstance(b []byte) (Instance, error) {
	d := decoder{b: b}
	if d.take(1)[0] != instanceFormat {
		return Instance{}, ErrMalformed
	}
	i := Instance{ID: d.text(maxIDLen), Name: d.text(maxNameLen), Address: d.text(253)}
	i.Port = int(binary.BigEndian.Uint16(d.take(2)))
	i.Weight = int(binary.BigEndian.Uint16(d.take(2)))
	flags := d.take(1)[0]
	i.Backup, i.Maintenance, i.Draining = flags&flagBackup != 0, flags&flagMaintenance != 0, flags&flagDraining != 0
	i.Load = math.Round(float64(math.Float32frombits(binary.BigEndian.Uint32(d.take(4))))*1e6) / 1e6 // 0.4 shall read 0.4
	if math.IsNaN(i.Load) || i.Load < 0 {
		i.Load = 0
	}
	reason := d.text(maxReasonLen)
	for range d.count(maxTags) {
		i.Tags = append(i.Tags, d.text(maxTagLen))
	}
	for range d.count(maxChecks) {
		i.Checks = append(i.Checks, CheckState{Health: healthOf(d.take(1)[0]), Reason: d.text(maxReasonLen)})
	}
	if d.bad || i.ID == "" || i.Name == "" || i.Port == 0 || i.Address != "" && !validHost(i.Address) {
		return Instance{}, ErrMalformed
	}
	i.judge()
	if i.Maintenance {
		i.Health, i.Reason = Critical, reason
	}
	return i, nil
}

// MemberRecord is what a member tells about itself every now and then, beside
// its instances.
type MemberRecord struct {
	Load     load.Load
	Sessions int
	Role     string    // leader, voter, nonvoter or witness, as it believes
	Leader   member.ID // whom it takes for the leader; empty: nobody
	Term     uint64    // raft's, of that belief
}

// Encode returns the record, for the key MemberKey.
func (m MemberRecord) Encode() []byte {
	b := []byte{memberFormat}
	l, _ := m.Load.MarshalBinary() // never fails
	b = appendText(b, string(l))
	b = binary.AppendUvarint(b, uint64(max(m.Sessions, 0)))
	b = appendText(b, m.Role)
	b = appendText(b, string(m.Leader))
	return binary.AppendUvarint(b, m.Term)
}

// DecodeMember is the inverse of Encode.
func DecodeMember(b []byte) (MemberRecord, error) {
	d := decoder{b: b}
	if d.take(1)[0] != memberFormat {
		return MemberRecord{}, ErrMalformed
	}
	var m MemberRecord
	if m.Load.UnmarshalBinary([]byte(d.text(64))) != nil {
		d.bad = true
	}
	m.Sessions = int(d.uvarint() & math.MaxInt64)
	m.Role = d.text(32)
	m.Leader = member.ID(d.text(32))
	m.Term = d.uvarint()
	if m.Leader != "" {
		if _, err := member.ParseID(string(m.Leader)); err != nil {
			d.bad = true
		}
	}
	if d.bad {
		return MemberRecord{}, ErrMalformed
	}
	return m, nil
}
