package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// ServiceFile is a block "service"; its label is the instance's id.
type ServiceFile struct {
	Name    *string `opt:"name"`
	Address *string `opt:"address"`
	Port    *int    `opt:"port"`
	Weight  *int    `opt:"weight"`
	Backup  *bool   `opt:"backup"`

	Protocol       *string   `opt:"protocol"`
	SendProxy      *string   `opt:"send_proxy"`
	MaxConnections *int      `opt:"max_connections"`
	SlowStart      *Duration `opt:"slow_start"`

	Tags   *[]string    `opt:"tags"`
	Checks []*CheckFile `opt:"check"`
}

// Service is one instance that this agent registers when it starts.
type Service struct {
	ID      string
	Name    string
	Address string // empty: the address this member advertises
	Port    int
	Weight  int
	Backup  bool

	Protocol       string        // what it speaks: http1, https, h2 or h2c
	SendProxy      string        // which PROXY header its connections begin with: "", v1 or v2
	MaxConnections int           // requests at a time; 0: no limit
	SlowStart      time.Duration // until its whole weight counts after it has come up; 0: at once

	Tags   []string
	Checks []Check
}

func defaultService(id string) *ServiceFile {
	return &ServiceFile{
		Name: ptr(id), Address: ptr(""), Port: ptr(0), Weight: ptr(100), Backup: ptr(false),
		Protocol: ptr("http1"), SendProxy: ptr(""), MaxConnections: ptr(0), SlowStart: ptr(Duration(0)),
		Tags: ptr([]string{}), Checks: nil,
	}
}

func (f *ServiceFile) runtime(c *checker, id string) Service {
	at := "service." + id
	if !plainName(id) {
		c.fail(at, id, "an instance's id must be 1 to 64 letters, digits, dots, hyphens or underscores")
	}
	if *f.Name != id && !plainName(*f.Name) {
		c.fail(at+".name", *f.Name, "must be 1 to 64 letters, digits, dots, hyphens or underscores")
	}
	if *f.Address != "" && !hostName(*f.Address) && !isAddr(*f.Address) {
		c.fail(at+".address", *f.Address, "must be an IP address or a host name, without a port")
	}
	c.between(at+".port", *f.Port, 1, 65535)
	c.between(at+".weight", *f.Weight, 0, 65535)
	c.oneOf(at+".protocol", *f.Protocol, "http1", "https", "h2", "h2c")
	if *f.SendProxy != "" {
		c.oneOf(at+".send_proxy", *f.SendProxy, "v1", "v2")
		if *f.Protocol == "h2" || *f.Protocol == "h2c" {
			c.fail(at+".send_proxy", *f.SendProxy, `needs protocol = "http1" or "https": a connection of `+*f.Protocol+" carries many clients")
		}
	}
	c.between(at+".max_connections", *f.MaxConnections, 0, 1_000_000)
	if *f.SlowStart != 0 {
		c.durationBetween(at+".slow_start", *f.SlowStart, 0, time.Hour)
	}
	s := Service{
		ID: id, Name: *f.Name, Address: *f.Address, Port: *f.Port, Weight: *f.Weight, Backup: *f.Backup,
		Protocol: *f.Protocol, SendProxy: *f.SendProxy, MaxConnections: *f.MaxConnections, SlowStart: time.Duration(*f.SlowStart),
		Tags: slices.Clone(*f.Tags),
	}
	for i, check := range f.Checks {
		s.Checks = append(s.Checks, check.runtime(c, nth(at+".check", i)))
	}
	return s
}

// plainName is the form of node names, instance ids and service names: they
// appear in URLs, logs and cookies' digests, so nothing in them needs quoting.
func plainName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, r := range s {
		if !asciiAlnum(r) && !strings.ContainsRune("-_.", r) {
			return false
		}
	}
	return strings.Trim(s, ".") != ""
}

func isAddr(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// ParseServices reads a file that holds service blocks and nothing else. The
// error is of type Problems.
func ParseServices(name string, text []byte) ([]Service, error) {
	l, problems := decode(name, text)
	for _, option := range sortedKeys(l.origins) {
		if option != "service" && !strings.HasPrefix(option, "service.") {
			problems = append(problems, Problem{At: l.origins[option], Option: option, Rule: "does not belong here: only service blocks do"})
		}
	}
	c := &checker{origins: l.origins}
	var out []Service
	for _, id := range sortedKeys(l.file.Services) {
		out = append(out, merge(defaultService(id), l.file.Services[id]).runtime(c, id))
	}
	if problems = append(problems, c.problems...); len(problems) > 0 {
		problems.sort()
		return nil, problems
	}
	if len(out) == 0 {
		return nil, Problems{{At: Origin{Source: name}, Rule: "describes no service"}}
	}
	return out, nil
}
