package config

import (
	"fmt"
	"time"

	"github.com/rondel-project/rondel/agent/internal/unit"
)

// Duration is a time that reads itself from text with a unit.
type Duration time.Duration

// Size is a number of bytes that reads itself from text with a unit.
type Size int64

// String returns the canonical form, "30m" rather than "30m0s".
func (d Duration) String() string { return unit.FormatDuration(time.Duration(d)) }

// String returns the size with the largest unit that divides it.
func (s Size) String() string { return unit.FormatSize(int64(s)) }

// File is one layer of configuration. The opt tag is the name in HCL and JSON;
// a pointer to a struct is a section, a map a block with a label, a slice of
// pointers a block that may be repeated.
type File struct {
	Dev             *bool     `opt:"dev"`
	NodeName        *string   `opt:"node_name"`
	DataDir         *string   `opt:"data_dir"`
	PidFile         *string   `opt:"pid_file"`
	Witness         *bool     `opt:"witness"`
	Bind            *string   `opt:"bind"`
	Advertise       *string   `opt:"advertise"`
	Client          *string   `opt:"client"`
	BootstrapExpect *int      `opt:"bootstrap_expect"`
	Join            *[]string `opt:"join"`
	RetryJoin       *[]string `opt:"retry_join"`
	Profile         *string   `opt:"profile"`
	Encrypt         *string   `opt:"encrypt"`
	LogLevel        *string   `opt:"log_level"`
	LogJSON         *bool     `opt:"log_json"`

	Ports    *PortsFile              `opt:"ports"`
	Session  *SessionFile            `opt:"session"`
	Ring     *RingFile               `opt:"ring"`
	API      *APIFile                `opt:"api"`
	Proxy    *ProxyFile              `opt:"proxy"`
	Redis    *RedisFile              `opt:"redis"`
	Services map[string]*ServiceFile `opt:"service"`
	Routes   map[string]*RouteFile   `opt:"route"`
}

// Origin is where an option was set.
type Origin struct {
	Source string // a file's path, "flag -bind", "environment RONDEL_BIND" or "default"
	Line   int    // 0 where lines mean nothing
}

// String returns "web1.hcl:3" or "flag -bind".
func (o Origin) String() string {
	if o.Line == 0 {
		return o.Source
	}
	return fmt.Sprintf("%s:%d", o.Source, o.Line)
}

// Origins maps an option's path, such as session.ttl or service.shop.port, to
// the place that set the value in force.
type Origins map[string]Origin

// defaultSource is where options come from that nobody has set.
const defaultSource = "default"

// of returns the origin of the option itself or, failing that, of the nearest
// block around it.
func (o Origins) of(option string) Origin {
	for path := option; path != ""; path = parent(path) {
		if at, ok := o[path]; ok {
			return at
		}
	}
	return Origin{Source: defaultSource}
}

func ptr[T any](v T) *T { return &v }

func defaults(hostname string) File {
	return File{
		Dev:             ptr(false),
		NodeName:        ptr(hostname),
		DataDir:         ptr(""),
		PidFile:         ptr(""),
		Witness:         ptr(false),
		Bind:            ptr("0.0.0.0"),
		Advertise:       ptr(""),
		Client:          ptr("127.0.0.1"),
		BootstrapExpect: ptr(0),
		Join:            ptr([]string{}),
		RetryJoin:       ptr([]string{}),
		Profile:         ptr("lan"),
		Encrypt:         ptr(""),
		LogLevel:        ptr("info"),
		LogJSON:         ptr(false),
		Ports:           defaultPorts(),
		Session:         defaultSession(),
		Ring:            defaultRing(),
		API:             defaultAPI(),
		Proxy:           defaultProxy(),
		Redis:           defaultRedis(),
	}
}

// devDefaults lie between the defaults and everything the operator wrote.
func devDefaults() File {
	return File{
		Bind:            ptr("127.0.0.1"),
		Client:          ptr("127.0.0.1"),
		BootstrapExpect: ptr(1),
	}
}
