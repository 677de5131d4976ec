package agent_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rondel-project/rondel/agent/agenttest"
)

// A name is decoded once, comes back as it was, and is never a reason to send
// the client elsewhere.
func TestCase_D23_namesComeBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := agenttest.NewCluster(t, 3)
		through, other := c.Member("m1"), c.Member("m2")
		fine := func(what string, a agenttest.Answer) agenttest.Answer {
			t.Helper()
			if a.Status >= 300 && a.Status < 400 || a.Header.Get("Location") != "" {
				t.Errorf("%s is redirected: %d to %q", what, a.Status, a.Header.Get("Location"))
			}
			return ok(t, what, a)
		}
		id := ok(t, "create", through.Create(nil, "")).ID
		for name, escaped := range map[string][]string{
			"a/b":                     {"a%2Fb", "a%2fb"},
			"a%2Fb":                   {"a%252Fb"},
			"a%b":                     {"a%25b"},
			"a+b":                     {"a+b", "a%2Bb"},
			"a b":                     {"a%20b"},
			"//":                      {"%2F%2F"},
			"/lead":                   {"%2Flead"},
			".":                       {".", "%2E"},
			"..":                      {"..", "%2E%2E", "%2e."},
			"a/../b":                  {"a%2F..%2Fb"},
			"é":                       {"%C3%A9"},
			"\x00":                    {"%00"},
			"%00":                     {"%2500"},
			"a@b:c;d=e&f?g#h":         {"a%40b%3Ac%3Bd%3De%26f%3Fg%23h", "a@b:c;d=e&f%3Fg%23h"},
			strings.Repeat("n", 300):  {strings.Repeat("n", 300)},
			strings.Repeat("é/", 300): {strings.Repeat("%C3%A9%2F", 300)},
		} {
			for _, as := range append(escaped, url.PathEscape(name)) {
				at := "/v1/sessions/" + id + "/attributes/" + as
				fine("set "+as, through.Send(http.MethodPut, at, []byte(`[1]`), "Content-Type", "application/json"))
				if a := fine("list", other.Read(id)); len(a.Attributes) != 1 || a.Attr(name) != "[1]" {
					t.Errorf("%q, set as %s, is listed as %s", name, as, a)
				}
				if a := fine("get "+as, other.Get(at)); string(a.Raw) != "[1]" {
					t.Errorf("get %s: %s", as, a)
				}
				fine("append to "+as, other.Do(http.MethodPost, at+"/append", map[string]any{"Value": 2}))
				fine("patch "+as, through.Patch(id, attrs{name: []int{1, 2, 3}}))
				if a := fine("get "+as, other.Get(at)); string(a.Raw) != "[1,2,3]" {
					t.Errorf("get %s after a patch: %s", as, a)
				}
				fine("delete "+as, other.Do(http.MethodDelete, at, nil))
				if a := fine("list", through.Read(id)); len(a.Attributes) != 0 {
					t.Errorf("after its deletion %q is listed: %s", name, a)
				}
				if a := through.Get(at); a.Status != 404 || a.Code != "unknown_attribute" {
					t.Errorf("get %s after its deletion: %s", as, a)
				}
			}
		}
		for what, as := range map[string]string{
			"not UTF-8": "%ff", "not UTF-8, once decoded": "%C3%28", "too long": strings.Repeat("n", 1025), "empty": "", "broken": "a%zz", "cut off": "a%2",
		} {
			at := "/v1/sessions/" + id + "/attributes/" + as
			a := c.Raw(through.Name, "PUT "+at+" HTTP/1.1\r\nHost: 10.0.0.1\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1")
			head, body, _ := strings.Cut(a, "\r\n\r\n")
			if !strings.HasPrefix(head, "HTTP/1.1 400 ") || !strings.Contains(head, "application/json") || !strings.Contains(body, `"Code":"bad_`) {
				t.Errorf("a name that is %s: %.600s", what, a)
			}
		}
		for target, want := range map[string]int{
			"/v1/sessions/" + id + "/attributes/a//b": 404, "/v1/sessions//" + id: 404, "/v1//sessions": 404, "/v1/nothing": 404, "/v1/sessions/": 404, "/v1/ring/..": 404,
		} {
			if a := through.Get(target); a.Status != want || a.Code == "" || a.Error == "" {
				t.Errorf("%s: %s", target, a)
			}
		}
		if a := through.Do(http.MethodPost, "/v1/ring", nil); a.Status != 405 || a.Header.Get("Allow") != "GET, HEAD" || a.Code == "" {
			t.Errorf("a method that is none: %s, %v", a, a.Header)
		}
	})
}
