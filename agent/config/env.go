package config

import (
	"reflect"
	"slices"
	"strings"
)

const envPrefix = "RONDEL_"

// envLayer reads RONDEL_… variables: RONDEL_NODE_NAME is node_name,
// RONDEL_SESSION_TTL is session.ttl, lists are comma separated, RONDEL_SERVICE
// is the flag -service. Unknown ones are warnings: container platforms set
// variables of that form for anything that is named rondel.
func envLayer(environ []string) (layer, Problems, Problems) {
	l := newLayer()
	var problems, warnings Problems
	names := attributePaths(reflect.TypeFor[File](), "")
	byVariable := map[string]string{envPrefix + "SERVICE": "service"}
	for _, path := range names {
		byVariable[EnvName(path)] = path
	}
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || clientVariable(name) {
			continue
		}
		path, known := byVariable[name]
		if !known {
			warnings = append(warnings, Problem{At: Origin{Source: "environment " + name}, Rule: "is not a variable that rondel knows, and has no effect"})
			continue
		}
		settings := []Setting{{Option: path, Value: value}}
		if path == "service" {
			settings = nil
			for _, text := range splitList(value) {
				settings = append(settings, Setting{Option: path, Value: text})
			}
		}
		for _, s := range settings {
			problems = append(problems, l.apply(s, Origin{Source: "environment " + name})...)
		}
	}
	return l, problems, warnings
}

// EnvName returns the environment variable of an option.
func EnvName(option string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(option, ".", "_"))
}

// clientVariable reports whether a variable is read by the commands that talk
// to an agent rather than by the agent.
func clientVariable(name string) bool {
	switch name {
	case "RONDEL_HTTP_ADDR", "RONDEL_HTTP_TOKEN", "RONDEL_CACERT", "RONDEL_CLIENT_CERT", "RONDEL_CLIENT_KEY":
		return true
	}
	return false
}

// attributePaths lists the options that a single text can set.
func attributePaths(t reflect.Type, path string) []string {
	var out []string
	for _, o := range options(t) {
		switch o.kind {
		case attribute:
			out = append(out, join(path, o.name))
		case section:
			out = append(out, attributePaths(t.Field(o.index).Type.Elem(), join(path, o.name))...)
		}
	}
	return out
}
