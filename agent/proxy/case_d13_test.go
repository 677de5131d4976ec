package proxy

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/member"
)

// The value is the same for an instance at each agent and after a restart, tells
// nothing to who lacks the key, and whatever the cluster did not issue is as if
// it were absent.
func TestCase_D13_valuesTellNothing(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n := range 3 {
		a := startApp(t, fmt.Sprintf("a%d", n+1), echo(fmt.Sprintf("a%d", n+1)))
		list = append(list, instanceOf(a, member.ID(fmt.Sprintf("m%d", n+1))))
	}
	tags := map[string]string{} // by app
	cookies := map[string]string{}
	for n := range 4 { // the last one begins after the others
		r := startRig(t, setup{apps: list, position: n})
		for range 6 {
			name, cookie, _ := r.get(t, "")
			tag := cookie[len(cookie)-tagLen:]
			if tags[name] == "" {
				tags[name] = tag
			}
			if tags[name] != tag {
				t.Errorf("%s is %s, and %s at agent %d", name, tags[name], tag, n)
			}
			cookies[name] = cookie
		}
		for name, cookie := range cookies {
			if got, _, set := r.get(t, cookie); got != name || set {
				t.Errorf("agent %d sends a client of %s to %s", n, name, got)
			}
		}
	}
	if len(tags) != 3 {
		t.Fatal(tags)
	}
	for _, i := range list {
		tag := tags[i.ID]
		raw, err := base64.RawURLEncoding.DecodeString(tag)
		if err != nil || len(raw) != 8 {
			t.Fatalf("%q: %v", tag, err)
		}
		host, port, _ := strings.Cut(i.Addr, ":")
		for _, guess := range []string{"http://" + i.Addr, i.Addr, host, port, i.ID, string(i.Member), string(i.Member) + i.ID, "shop" + i.ID, "shop/" + i.ID} {
			md, s1, s2 := md5.Sum([]byte(guess)), sha1.Sum([]byte(guess)), sha256.Sum256([]byte(guess))
			for _, sum := range [][]byte{[]byte(guess), md[:], s1[:], s2[:]} {
				for _, text := range []string{string(sum), hex.EncodeToString(sum), base64.StdEncoding.EncodeToString(sum), base64.RawURLEncoding.EncodeToString(sum)} {
					if part := text[:min(len(text), 6)]; strings.Contains(tag, part) && len(part) > 2 || len(text) >= 8 && strings.Contains(string(raw), text[:8]) {
						t.Errorf("%s shows %q", tag, guess)
					}
				}
			}
		}
	}
}

func TestCase_D13_flippedBytesAndOtherFormats(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n := range 3 {
		a := startApp(t, fmt.Sprintf("a%d", n+1), echo(fmt.Sprintf("a%d", n+1)))
		list = append(list, instanceOf(a, member.ID(fmt.Sprintf("m%d", n+1))))
	}
	r := startRig(t, setup{apps: list})
	name, cookie, _ := r.get(t, "")
	session := sessionOf(cookie)
	for n := len(cookie) - tagLen; n < len(cookie); n++ {
		got, next, set := r.get(t, flip(cookie, n))
		if !set || next[len(next)-tagLen:] == flip(cookie, n)[len(cookie)-tagLen:] || sessionOf(next) != session {
			t.Errorf("%q: %s, %q", flip(cookie, n), got, next)
		}
	}
	for what, value := range map[string]string{
		"the id alone, as without tags": "RONDEL=" + session,
		"an older tag":                  "RONDEL=" + session + ".short",
		"a tag of another key":          "RONDEL=" + session + ".AAAAAAAAAAA",
	} {
		if _, next, set := r.get(t, value); !set || sessionOf(next) != session {
			t.Errorf("%s: %q", what, next)
		}
	}
	// A later version may say more: its cookie is honoured, and left alone.
	if got, _, set := r.get(t, cookie+".more.of-it"); got != name || set {
		t.Errorf("%s, set %v", got, set)
	}
	for _, value := range []string{"", ".", "..", "http://127.0.0.1:1", "127.0.0.1:1.AAAAAAAAAAA", list[0].Addr, strings.Repeat("A", 600), "\"" + cookie[7:] + "\"", "%20", "a1"} {
		if _, next, set := r.get(t, "RONDEL="+value); !set || sessionOf(next) == session {
			t.Errorf("%q: %q", value, next)
		}
	}
}

// Neighbours under one domain can set a cookie of this name that comes before
// the cluster's own: what the cluster did not issue is passed over, in one line
// or in several, and a client without a genuine one is a new one.
func TestCase_D13_forgedBesideGenuine(t *testing.T) {
	t.Parallel()
	var list []Instance
	for n := range 3 {
		a := startApp(t, fmt.Sprintf("a%d", n+1), echo(fmt.Sprintf("a%d", n+1)))
		list = append(list, instanceOf(a, member.ID(fmt.Sprintf("m%d", n+1))))
	}
	r := startRig(t, setup{apps: list})
	name, cookie, _ := r.get(t, "")
	forged := "RONDEL=x" + cookie[len("RONDEL="):]
	for _, both := range []string{
		"RONDEL=; " + cookie, "RONDEL=x; " + cookie, forged + "; " + cookie, forged + "; a=b; RONDEL=y; " + cookie, cookie + "; " + forged,
		forged + "\r\nCookie: " + cookie, strings.Repeat("RONDEL=x; ", 7) + cookie,
	} {
		if got, _, set := r.get(t, both); got != name || set {
			t.Errorf("%q: %s instead of %s, cookie set %v", both, got, name, set)
		}
	}
	for _, none := range []string{forged + "; RONDEL=x", strings.Repeat("RONDEL=x; ", 1000) + cookie} {
		if _, next, set := r.get(t, none); !set || sessionOf(next) == sessionOf(cookie) {
			t.Errorf("%.80q: set %v, %q", none, set, next)
		}
	}
}
