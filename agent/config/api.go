package config

import "strings"

// APIFile is the section "api".
type APIFile struct {
	Hosts *[]string `opt:"hosts"`
}

// API is how the HTTP API behaves.
type API struct {
	Hosts []string `opt:"api.hosts,reload"` // names, in lower case, that a request's Host may carry
}

func defaultAPI() *APIFile { return &APIFile{Hosts: ptr([]string{})} }

func (f *APIFile) runtime(c *checker) API {
	var hosts []string
	for _, host := range *f.Hosts {
		if !hostName(host) {
			c.fail("api.hosts", host, `must be a host name without scheme or port, as in "rondel.example.com"`)
		}
		hosts = append(hosts, strings.ToLower(host))
	}
	return API{Hosts: hosts}
}

// hostName reports whether s is a DNS name: labels of letters, digits, hyphens
// and underscores, none of them empty.
func hostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, r := range label {
			if !asciiAlnum(r) && r != '-' && r != '_' {
				return false
			}
		}
	}
	return true
}

func asciiAlnum(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
