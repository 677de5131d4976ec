package httpapi

import (
	"strings"

	"github.com/rondel-project/rondel/agent/session"
)

// etag returns a version as an entity tag.
func etag(v session.Version) string { return `"` + v.String() + `"` }

// entityTags reads If-Match and If-None-Match (RFC 9110, 13.1): `*`, or a list
// of tags.
type entityTags struct {
	any  bool
	tags []entityTag
}

type entityTag struct {
	weak   bool
	opaque string // without quotes
}

// parseEntityTags reads all lines of one header. ok is false where they are
// no list of tags.
func parseEntityTags(lines []string) (t entityTags, ok bool) {
	s := strings.Join(lines, ",")
	if strings.Trim(s, " \t") == "*" {
		return entityTags{any: true}, true
	}
	for {
		s = strings.TrimLeft(s, " \t,")
		if s == "" {
			return t, len(t.tags) > 0
		}
		var tag entityTag
		if s, tag.weak = strings.CutPrefix(s, "W/"); s == "" || s[0] != '"' {
			return t, false
		}
		end := strings.IndexByte(s[1:], '"')
		if end < 0 {
			return t, false
		}
		tag.opaque, s = s[1:1+end], strings.TrimLeft(s[end+2:], " \t")
		for i := range len(tag.opaque) {
			if c := tag.opaque[i]; c <= 0x20 || c == 0x7f {
				return t, false
			}
		}
		if s != "" && s[0] != ',' {
			return t, false
		}
		t.tags = append(t.tags, tag)
	}
}

// versions returns the versions that the tags name by strong comparison, for
// If-Match. Tags that can be no version of ours match nothing; with no other
// the result holds a version that no session ever has.
func (t entityTags) versions() []session.Version {
	if t.any {
		return nil
	}
	out := make([]session.Version, 0, len(t.tags))
	for _, tag := range t.tags {
		v, err := session.ParseVersion(tag.opaque)
		if err != nil || tag.weak || v.String() != tag.opaque {
			v = session.Version{} // versions start at 1
		}
		out = append(out, v)
	}
	return out
}

// has compares weakly, for If-None-Match.
func (t entityTags) has(v session.Version) bool {
	for _, tag := range t.tags {
		if tag.opaque == v.String() {
			return true
		}
	}
	return t.any
}
