package config

import (
	"reflect"
	"slices"
	"strings"
)

// Changes names the options that differ between two configurations: those that
// a running agent can take over, and those that need a restart. Services and
// routes are named one by one.
func Changes(old, new Runtime) (reloadable, restart []string) {
	before, after := flatten(old), flatten(new)
	for _, option := range sortedKeys(after) {
		a, b := before[option], after[option]
		if reflect.DeepEqual(a.value, b.value) {
			continue
		}
		switch {
		case option == "service":
			reloadable = append(reloadable, changedNames("service.", old.Services, new.Services, func(s Service) string { return s.ID })...)
		case option == "route":
			reloadable = append(reloadable, changedNames("route.", old.Routes, new.Routes, func(r Route) string { return r.Name })...)
		case b.reload:
			reloadable = append(reloadable, option)
		default:
			restart = append(restart, option)
		}
	}
	slices.Sort(reloadable)
	return reloadable, restart
}

// Apply returns old with every option of new that a running agent can take
// over, and nothing else of it.
func Apply(old, new Runtime) Runtime {
	out := old
	var walk func(out, new reflect.Value)
	walk = func(out, new reflect.Value) {
		for i := range out.NumField() {
			tag, tagged := out.Type().Field(i).Tag.Lookup("opt")
			switch {
			case !tagged:
				walk(out.Field(i), new.Field(i))
			case strings.HasSuffix(tag, ",reload"):
				out.Field(i).Set(new.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(&out).Elem(), reflect.ValueOf(new))
	return out
}

func changedNames[T any](prefix string, old, new []T, name func(T) string) (out []string) {
	seen := map[string]T{}
	for _, v := range old {
		seen[name(v)] = v
	}
	for _, v := range new {
		before, had := seen[name(v)]
		if !had || !reflect.DeepEqual(before, v) {
			out = append(out, prefix+name(v))
		}
		delete(seen, name(v))
	}
	for _, gone := range sortedKeys(seen) {
		out = append(out, prefix+gone)
	}
	return out
}

type flatValue struct {
	value  any
	reload bool
}

// flatten lists the tagged fields of a Runtime by option.
func flatten(r Runtime) map[string]flatValue {
	out := map[string]flatValue{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			tag, tagged := v.Type().Field(i).Tag.Lookup("opt")
			if !tagged {
				walk(v.Field(i))
				continue
			}
			name, flag, _ := strings.Cut(tag, ",")
			out[name] = flatValue{value: normal(v.Field(i)), reload: flag == "reload"}
		}
	}
	walk(reflect.ValueOf(r))
	return out
}

// normal makes an absent list and an empty one equal.
func normal(v reflect.Value) any {
	if v.Kind() == reflect.Slice && v.Len() == 0 {
		return reflect.MakeSlice(v.Type(), 0, 0).Interface()
	}
	return v.Interface()
}
