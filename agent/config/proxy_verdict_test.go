package config

import (
	"strings"
	"testing"
)

func TestProxy_rules(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``: "",
		"proxy_protocol = \"required\"\nproxy_protocol_from = [\"10.0.0.7\"]": "",
		"proxy_protocol = \"listed\"\nproxy_protocol_from = [\"::/0\"]":       "",
		`proxy_protocol = "optional"`:                                         `:2: proxy.proxy_protocol = "optional": must be "off", "listed" or "required"`,
		`proxy_protocol = "required"`:                                         `:2: proxy.proxy_protocol = "required": needs proxy_protocol_from`,
		"\nproxy_protocol_from = [\"10.0.0.7\"]":                              `:3: proxy.proxy_protocol_from = "": has no effect while`,
		"proxy_protocol_from = [\"balancer\"]":                                `:2: proxy.proxy_protocol_from = "balancer": must be an address`,
		"proxy_protocol_from = [\"10.0.0.0/33\"]":                             `:2: proxy.proxy_protocol_from = "10.0.0.0/33": must be an address`,
		"proxy_protocol = true":                                               `:2: proxy.proxy_protocol = "true": must be`,
	} {
		path := write(t, t.TempDir(), "a.hcl", "proxy {\n"+body+"\n}")
		_, err := Load(Options{Paths: []string{path}, Flags: []Setting{devFlag()}, Host: testHost()})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
