package config

import (
	"reflect"
	"strings"
)

// merge returns the later of each option: scalars and lists replace, sections
// and blocks of one name merge, repeated blocks replace as a list. Neither
// argument is changed.
func merge[T any](low, high *T) *T {
	out := mergeValue(reflect.ValueOf(low), reflect.ValueOf(high))
	return out.Interface().(*T)
}

func mergeValue(low, high reflect.Value) reflect.Value {
	switch {
	case high.IsNil():
		return low
	case low.IsNil():
		return high
	}
	switch {
	case high.Kind() == reflect.Map:
		out := reflect.MakeMap(high.Type())
		for it := low.MapRange(); it.Next(); {
			out.SetMapIndex(it.Key(), it.Value())
		}
		for it := high.MapRange(); it.Next(); {
			value := it.Value()
			if below := out.MapIndex(it.Key()); below.IsValid() {
				value = mergeValue(below, value)
			}
			out.SetMapIndex(it.Key(), value)
		}
		return out
	case high.Kind() == reflect.Pointer && high.Type().Elem().Kind() == reflect.Struct:
		out := reflect.New(high.Type().Elem())
		for i := range out.Elem().NumField() {
			out.Elem().Field(i).Set(mergeValue(low.Elem().Field(i), high.Elem().Field(i)))
		}
		return out
	}
	return high
}

// kind is what a field of a File struct is in a configuration file.
type kind int

const (
	attribute kind = iota
	section        // one block without a label
	labelled       // blocks with a label
	repeated       // any number of blocks without a label
)

type option struct {
	name  string
	kind  kind
	index int
}

func options(t reflect.Type) []option {
	var out []option
	for i := range t.NumField() {
		f := t.Field(i)
		o := option{name: f.Tag.Get("opt"), index: i}
		switch {
		case f.Type.Kind() == reflect.Map:
			o.kind = labelled
		case f.Type.Kind() == reflect.Slice:
			o.kind = repeated
		case f.Type.Elem().Kind() == reflect.Struct:
			o.kind = section
		}
		out = append(out, o)
	}
	return out
}

// lookup finds the attribute that path names below v, making the sections on
// the way. It returns false for a path that is no attribute.
func lookup(v reflect.Value, path string) (reflect.Value, bool) {
	name, rest, deeper := strings.Cut(path, ".")
	for _, o := range options(v.Type()) {
		if o.name != name {
			continue
		}
		field := v.Field(o.index)
		switch {
		case o.kind == attribute && !deeper:
			return field, true
		case o.kind == section && deeper:
			if field.IsNil() {
				field.Set(reflect.New(field.Type().Elem()))
			}
			return lookup(field.Elem(), rest)
		}
	}
	return reflect.Value{}, false
}
