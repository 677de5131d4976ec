package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// EventStream reads server-sent events. It is for one goroutine.
type EventStream struct {
	body  io.ReadCloser
	lines *bufio.Scanner
}

func newEventStream(body io.ReadCloser) *EventStream {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	return &EventStream{body: body, lines: lines}
}

// Next blocks until there is an event. It returns io.EOF after the last one.
func (s *EventStream) Next() (Event, error) {
	var e Event
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.Type = value
		case "data":
			if !json.Valid([]byte(value)) {
				return e, fmt.Errorf("event %q: its data is no JSON", e.Type)
			}
			e.Data = append(e.Data, value...)
		case "": // an empty line ends an event, a line that starts with a colon is a comment
			if s.lines.Text() == "" && e.Type != "" {
				return e, nil
			}
		}
	}
	if err := s.lines.Err(); err != nil {
		return e, err
	}
	return e, io.EOF
}

// Close ends the stream.
func (s *EventStream) Close() error { return s.body.Close() }
