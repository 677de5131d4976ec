package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errChecksum means that an entry is not what was written.
var errChecksum = errors.New("wrong checksum")

// entryHead is the checksum (CRC-32C) over all that follows and the entry's
// index, the wall time of the write in Unix milliseconds, and whether the next
// entry goes on with the same records.
const entryHead = 4 + 8 + 1

// encodeEntry makes the log entry of what several steps have logged.
func encodeEntry(index uint64, at time.Time, more bool, records []byte) *raft.Log {
	b := make([]byte, entryHead, entryHead+len(records))
	binary.BigEndian.PutUint64(b[4:], uint64(at.UnixMilli()))
	if more {
		b[12] = 1
	}
	b = append(b, records...)
	binary.BigEndian.PutUint32(b, checksum(index, b[4:]))
	return &raft.Log{Index: index, Data: b}
}

// decodeEntry is the inverse; records share memory with l. Its caller says which
// entry an error is about.
func decodeEntry(index uint64, l *raft.Log) (at time.Time, more bool, records []byte, err error) {
	if l.Index != index || len(l.Data) < entryHead || binary.BigEndian.Uint32(l.Data) != checksum(index, l.Data[4:]) {
		return time.Time{}, false, nil, errChecksum
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(l.Data[4:]))), l.Data[12] != 0, l.Data[entryHead:], nil
}

func checksum(index uint64, b []byte) uint32 {
	var i [8]byte
	binary.BigEndian.PutUint64(i[:], index)
	return crc32.Update(crc32.Checksum(i[:], castagnoli), castagnoli, b)
}
