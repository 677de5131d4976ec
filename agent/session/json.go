package session

import "bytes"

// appendTo puts req.Value, a JSON value, at the end of the attribute, a JSON
// array that is made if absent. The array is edited as text: what was in it
// stays as it was sent, numbers and key order included.
func appendTo(rec *Record, req *Request) (v []byte, n int, r *Response) {
	var old []byte
	if rec != nil {
		if a := rec.Attr(req.Name); a != nil {
			if a.Type != "" {
				return nil, 0, fail(Conflict, "not_an_array", "the attribute is binary, not a JSON array")
			}
			old = bytes.TrimSpace(a.Value)
		}
	}
	if old == nil {
		old = []byte("[]")
	}
	if len(old) < 2 || old[0] != '[' || old[len(old)-1] != ']' {
		return nil, 0, fail(Conflict, "not_an_array", "the attribute is not a JSON array")
	}
	body := bytes.TrimSpace(old[1 : len(old)-1])
	n = countElements(body) + 1
	v = make([]byte, 0, len(old)+len(req.Value)+1)
	v = append(v, '[')
	v = append(v, body...)
	if n > 1 {
		v = append(v, ',')
	}
	v = append(v, req.Value...)
	return append(v, ']'), n, nil
}

// countElements counts the elements of an array's inside, which is known to be
// valid JSON.
func countElements(body []byte) int {
	if len(body) == 0 {
		return 0
	}
	n, depth, quoted := 1, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			n++
		}
	}
	return n
}
