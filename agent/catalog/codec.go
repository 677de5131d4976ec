package catalog

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/rondel-project/rondel/agent/internal/codec"
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

	maxWordLen = 16
	maxUnix    = 1 << 38 // far from now
)

// encodeInstance returns the record of an instance. Member, name and final
// verdict are not in it: each reader has its own.
func encodeInstance(i Instance) []byte {
	b := []byte{instanceFormat}
	for _, s := range []string{i.ID, i.Name, i.Address} {
		b = codec.AppendBytes(b, s)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(i.Port))
	b = binary.BigEndian.AppendUint16(b, uint16(i.Weight))
	b = append(b, codec.Flags(i.Backup, i.Maintenance, i.Draining, i.Moved))
	b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(i.Load)))
	b = codec.AppendBytes(b, i.Reason)
	b = binary.AppendUvarint(b, uint64(len(i.Tags)))
	for _, t := range i.Tags {
		b = codec.AppendBytes(b, t)
	}
	b = binary.AppendUvarint(b, uint64(len(i.Checks)))
	for _, c := range i.Checks {
		b = codec.AppendBytes(append(b, rank(c.Health)), c.Reason)
	}
	b = codec.AppendBytes(codec.AppendBytes(b, i.Protocol), i.SendProxy)
	b = binary.AppendUvarint(b, uint64(i.MaxConnections))
	b = binary.AppendUvarint(b, uint64(i.SlowStart/time.Millisecond))
	b = codec.AppendBytes(b, i.Drain.Reason)
	until := uint64(0)
	if !i.Drain.Until.IsZero() {
		until = uint64(max(i.Drain.Until.Unix(), 1))
	}
	return binary.AppendUvarint(b, until)
}

// decoder reads what the encode functions wrote.
type decoder struct{ *codec.Reader }

func (d decoder) uint16() uint16 {
	if b := d.Fixed(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d decoder) float32() float32 {
	if b := d.Fixed(4); b != nil {
		return math.Float32frombits(binary.BigEndian.Uint32(b))
	}
	return 0
}

func decodeInstance(b []byte) (Instance, error) {
	d := decoder{codec.NewReader(b)}
	if d.Byte() != instanceFormat {
		return Instance{}, ErrMalformed
	}
	i := Instance{ID: d.String(maxIDLen), Name: d.String(maxNameLen), Address: d.String(253)}
	i.Port, i.Weight = int(d.uint16()), int(d.uint16())
	flags := d.Byte() // of a later version there may be more
	i.Backup, i.Maintenance, i.Draining = flags&1 != 0, flags&2 != 0, flags&4 != 0
	i.Moved = flags&8 != 0
	i.Load = math.Round(float64(d.float32())*1e6) / 1e6 // 0.4 shall read 0.4
	if math.IsNaN(i.Load) || i.Load < 0 {
		i.Load = 0
	}
	reason := d.String(maxReasonLen)
	for range d.UpTo(maxTags) {
		i.Tags = append(i.Tags, d.String(maxTagLen))
	}
	for range d.UpTo(maxChecks) {
		i.Checks = append(i.Checks, CheckState{Health: healthOf(d.Byte()), Reason: d.String(maxReasonLen)})
	}
	// What it speaks may be of a later version: its proxies then say so.
	i.Protocol, i.SendProxy = d.String(maxWordLen), d.String(maxWordLen)
	i.MaxConnections = int(min(d.Uvarint(), maxConnections))
	i.SlowStart = time.Duration(min(d.Uvarint(), uint64(maxSlowStart/time.Millisecond))) * time.Millisecond
	i.Drain.Reason = d.String(maxReasonLen)
	if until := d.Uvarint(); until > 0 {
		i.Drain.Until = time.Unix(int64(min(until, maxUnix)), 0)
	}
	if d.Err() != nil || i.ID == "" || i.Name == "" || i.Port == 0 || i.Address != "" && !validHost(i.Address) {
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
	b = codec.AppendBytes(b, string(l))
	b = binary.AppendUvarint(b, uint64(max(m.Sessions, 0)))
	b = codec.AppendBytes(b, m.Role)
	b = codec.AppendBytes(b, string(m.Leader))
	return binary.AppendUvarint(b, m.Term)
}

// DecodeMember is the inverse of Encode.
func DecodeMember(b []byte) (MemberRecord, error) {
	d := codec.NewReader(b)
	if d.Byte() != memberFormat {
		return MemberRecord{}, ErrMalformed
	}
	var m MemberRecord
	if m.Load.UnmarshalBinary(d.Bytes(64)) != nil {
		d.Failf("load")
	}
	m.Sessions = int(d.Uvarint() & math.MaxInt64)
	m.Role = d.String(32)
	m.Leader = member.ID(d.String(32))
	m.Term = d.Uvarint()
	if m.Leader != "" {
		if _, err := member.ParseID(string(m.Leader)); err != nil {
			d.Fail(err)
		}
	}
	if d.Err() != nil {
		return MemberRecord{}, ErrMalformed
	}
	return m, nil
}
