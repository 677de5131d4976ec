package peers

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReverse_sticks(t *testing.T) {
	t.Parallel()
	var addrs []string
	for i := range 3 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, InstanceName(i)) }))
		t.Cleanup(s.Close)
		addrs = append(addrs, s.Listener.Addr().String())
	}
	front := httptest.NewServer(reverse(addrs))
	t.Cleanup(front.Close)
	ask := func(cookie string) (name, set string) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Cookie", cookie)
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body), r.Header.Get("Set-Cookie")
	}
	seen := map[string]bool{}
	for range 3 {
		name, set := ask("")
		seen[name] = true
		cookie, _, _ := strings.Cut(set, ";")
		if cookie != "SRV="+name {
			t.Errorf("%s set %q", name, set)
		}
		if again, set := ask(cookie); again != name || set != "" {
			t.Errorf("a client of %s came to %s, which set %q", name, again, set)
		}
	}
	if len(seen) != 3 {
		t.Errorf("three new clients came to %v", seen)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	if got, want := lines([]string{"h:1", "h:2"}, "NAME=ADDR;"), "b001=h:1;b002=h:2;"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
