package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// What the door costs without sockets and without a cluster behind it.
func BenchmarkServer(b *testing.B) {
	for name, c := range map[string]struct{ method, suffix, body string }{
		"get":   {"GET", "", ""},
		"patch": {"PATCH", "", `{"Attributes":{"cart":[{"sku":"a-1","n":2}],"seen":"2026-01-02T03:04:05Z"}}`},
		"incr":  {"POST", "/attributes/n/incr", `{"By":1}`},
	} {
		b.Run(name, func(b *testing.B) {
			h := newHarness(b)
			h.log.SetLevel(hclog.Info)
			at := h.newSession(`{"Attributes":{"cart":[{"sku":"a-1","n":2}],"seen":"2026-01-02T03:04:05Z","n":1}}`)
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(c.method, at+c.suffix, strings.NewReader(c.body))
				r.Host = "127.0.0.1"
				w := httptest.NewRecorder()
				h.server.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
