package accesslog

import "time"

// Entry is what is known of a request that has ended. Byte slices are only read
// while it is written.
type Entry struct {
	Time      time.Time // when its first byte came
	Client    []byte    // its address, as trusted proxies say
	Scheme    string
	Method    []byte // empty for a request that could not be read
	Host      []byte
	Target    []byte
	Protocol  string
	Status    int   // 0: the client got none
	In, Out   int64 // bytes from and to the client, heads included
	Body      int64 // bytes to the client after the head
	Referer   []byte
	Secrets   [2]string // parameters whose values are masked in any case
	UserAgent []byte
	RequestID []byte
	Route     string
	Service   string
	Instance  string // id of the one that was asked last
	Member    string // that the instance is beside
	Tries     int
	Why       string // the instance was chosen
	End       string // what ended the exchange
	Head      time.Duration
	Queue     time.Duration
	Connect   time.Duration
	First     time.Duration // from the head to the head of the answer; negative: none came
	Total     time.Duration
}

// Query says what of a request's query is logged.
type Query uint8

// Names are logged with a star for each value, nothing, or all there is.
const (
	QueryNames Query = iota
	QueryNone
	QueryFull
)

// Format is the form of lines.
type Format uint8

// The formats.
const (
	JSON Format = iota
	Combined
)
