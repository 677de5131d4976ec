package accesslog

import (
	"strconv"
	"time"
)

// append adds the entry's line, with its line feed.
func (e *Entry) append(dst []byte, f Format, q Query) []byte {
	if f == Combined {
		return e.appendCombined(dst, q)
	}
	return e.appendJSON(dst, q)
}

// appendJSON adds one object. Its names and their order are documented.
func (e *Entry) appendJSON(dst []byte, q Query) []byte {
	dst = append(dst, `{"time":"`...)
	dst = e.Time.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	dst = append(dst, '"')
	dst = bytesField(dst, `,"client":"`, e.Client)
	dst = textField(dst, `,"scheme":"`, e.Scheme)
	dst = bytesField(dst, `,"method":"`, e.Method)
	dst = bytesField(dst, `,"host":"`, e.Host)
	dst = append(appendURL(append(dst, `,"target":"`...), e.Target, q, e.Secrets, appendJSON), '"')
	dst = textField(dst, `,"protocol":"`, e.Protocol)
	dst = number(dst, `,"status":`, int64(e.Status))
	dst = number(dst, `,"bytes_in":`, e.In)
	dst = number(dst, `,"bytes_out":`, e.Out)
	dst = append(appendURL(append(dst, `,"referer":"`...), e.Referer, q, e.Secrets, appendJSON), '"')
	dst = bytesField(dst, `,"user_agent":"`, e.UserAgent)
	dst = bytesField(dst, `,"request_id":"`, e.RequestID)
	dst = textField(dst, `,"route":"`, e.Route)
	dst = textField(dst, `,"service":"`, e.Service)
	dst = append(dst, `,"instance":"`...)
	dst = appendText(dst, e.Instance)
	if e.Instance != "" {
		dst = append(dst, '@')
		dst = appendText(dst, e.Member)
	}
	dst = append(dst, '"')
	dst = number(dst, `,"tries":`, int64(e.Tries))
	dst = textField(dst, `,"chosen":"`, e.Why)
	dst = textField(dst, `,"end":"`, e.End)
	dst = millis(dst, `,"head_ms":`, e.Head)
	dst = millis(dst, `,"queue_ms":`, e.Queue)
	dst = millis(dst, `,"connect_ms":`, e.Connect)
	if e.First >= 0 {
		dst = millis(dst, `,"first_byte_ms":`, e.First)
	} else {
		dst = append(dst, `,"first_byte_ms":null`...)
	}
	dst = millis(dst, `,"total_ms":`, e.Total)
	return append(dst, "}\n"...)
}

func bytesField(dst []byte, name string, v []byte) []byte {
	return append(appendJSON(append(dst, name...), v), '"')
}

func textField(dst []byte, name, v string) []byte {
	return append(appendText(append(dst, name...), v), '"')
}

// appendText is appendJSON for names, which come from the configuration and the
// catalog and hardly ever have anything to escape.
func appendText(dst []byte, v string) []byte {
	for i := range len(v) {
		if b := v[i]; b < ' ' || b >= 0x7f || b == '"' || b == '\\' {
			return appendJSON(dst, []byte(v))
		}
	}
	return append(dst, v...)
}

func number(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(dst, name...), n, 10)
}

// millis adds a time in milliseconds with three digits behind the point.
func millis(dst []byte, name string, d time.Duration) []byte {
	us := max(d.Microseconds(), 0)
	dst = append(strconv.AppendInt(append(dst, name...), us/1000, 10), '.')
	us %= 1000
	return append(dst, byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
}

// appendCombined adds the line that log analysers know.
func (e *Entry) appendCombined(dst []byte, q Query) []byte {
	dst = orDash(dst, e.Client, plain)
	dst = append(dst, " - - ["...)
	dst = e.Time.AppendFormat(dst, "02/Jan/2006:15:04:05 -0700")
	dst = append(dst, `] "`...)
	if len(e.Method) == 0 {
		dst = append(dst, '-')
	} else {
		dst = append(appendQuoted(dst, e.Method), ' ')
		dst = appendURL(dst, e.Target, q, e.Secrets, appendQuoted)
		dst = append(append(dst, ' '), e.Protocol...)
	}
	dst = append(dst, `" `...)
	if e.Status < 100 {
		dst = append(dst, "000"...)
	} else {
		dst = strconv.AppendInt(dst, int64(e.Status), 10)
	}
	dst = append(dst, ' ')
	if e.Body <= 0 {
		dst = append(dst, '-')
	} else {
		dst = strconv.AppendInt(dst, e.Body, 10)
	}
	dst = append(dst, ` "`...)
	if len(e.Referer) == 0 {
		dst = append(dst, '-')
	} else {
		dst = appendURL(dst, e.Referer, q, e.Secrets, appendQuoted)
	}
	dst = append(dst, `" "`...)
	dst = orDash(dst, e.UserAgent, appendQuoted)
	return append(dst, "\"\n"...)
}

// plain is for what must not hold a space either.
func plain(dst, p []byte) []byte {
	for _, b := range p {
		if b <= ' ' || b >= 0x7f || b == '"' || b == '\\' {
			b = '_'
		}
		dst = append(dst, b)
	}
	return dst
}

func orDash(dst, p []byte, esc escaper) []byte {
	if len(p) == 0 {
		return append(dst, '-')
	}
	return esc(dst, p)
}
