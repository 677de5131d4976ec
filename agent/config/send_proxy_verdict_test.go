package config

import (
	"strings"
	"testing"
)

func TestService_sendProxyRules(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`send_proxy = "v1"`:                         "",
		`send_proxy = "v3"`:                         `:3: service.shop.send_proxy = "v3": must be "v1" or "v2"`,
		"protocol = \"https\"\nsend_proxy = \"v2\"": "",
		"protocol = \"h2c\"\nsend_proxy = \"v2\"":   `:4: service.shop.send_proxy = "v2": needs protocol = "http1" or "https"`,
		"protocol = \"h2\"\nsend_proxy = \"v1\"":    `:4: service.shop.send_proxy = "v1": needs protocol = "http1" or "https"`,
	} {
		path := write(t, t.TempDir(), "a.hcl", "service \"shop\" {\nport = 80\n"+body+"\n}")
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
