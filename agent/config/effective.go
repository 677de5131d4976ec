package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Effective is one option as the agent runs with it.
type Effective struct {
	Option string
	Value  string // canonical form; keys are hidden
	Origin string
}

// Effective lists every option of the configuration, sorted, with the place
// that set it.
func (l Loaded) Effective() []Effective {
	var out []Effective
	add := func(option, value string) {
		out = append(out, Effective{Option: option, Value: value, Origin: l.Origins.of(option).String()})
	}
	for option, v := range flatten(l.Runtime) {
		if option != "service" && option != "route" {
			add(option, canonical(option, v.value))
		}
	}
	// Blocks are shown as a file would have them, since their plain values are
	// spread over several fields.
	for _, id := range sortedKeys(l.merged.Services) {
		service := merge(defaultService(id), l.merged.Services[id])
		eachOption(reflect.ValueOf(service).Elem(), "service."+id, add)
	}
	for _, name := range sortedKeys(l.merged.Routes) {
		route := merge(defaultRoute(name), l.merged.Routes[name])
		eachOption(reflect.ValueOf(route).Elem(), "route."+name, add)
	}
	slices.SortFunc(out, func(a, b Effective) int { return cmp.Compare(a.Option, b.Option) })
	return out
}

func eachOption(v reflect.Value, path string, add func(option, value string)) {
	for _, o := range options(v.Type()) {
		field, name := v.Field(o.index), join(path, o.name)
		switch {
		case field.IsNil():
		case o.kind == section:
			eachOption(field.Elem(), name, add)
		case o.kind == repeated:
			for i := range field.Len() {
				eachOption(field.Index(i).Elem(), nth(name, i), add)
			}
		case o.kind == attribute:
			add(name, canonical(name, field.Elem().Interface()))
		}
	}
}

func canonical(option string, value any) string {
	switch v := value.(type) {
	case []byte:
		if len(v) == 0 {
			return `""`
		}
		return "(hidden)"
	case time.Duration:
		return show(option, Duration(v))
	case int64:
		return show(option, Size(v)) // the only int64 of a Runtime is a size
	case interface{ IsValid() bool }:
		if !v.IsValid() {
			return `""`
		}
	}
	if s, ok := value.(fmt.Stringer); ok {
		return show(option, s)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
