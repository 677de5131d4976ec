package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Setting is one option given as text, by a flag or a variable. Option is a
// path such as session.ttl, or "service" for NAME:PORT, or "proxy_port" and
// "redis_port", which set the port of a listener and leave its address at the
// default. A list that is set again grows.
type Setting struct {
	Option string
	Value  string
	Flag   string // "-bind"; how a problem names the place
}

func flagLayer(settings []Setting) (layer, Problems) {
	l := newLayer()
	var problems Problems
	for _, s := range settings {
		problems = append(problems, l.apply(s, Origin{Source: "flag " + s.Flag})...)
	}
	return l, problems
}

func (l *layer) apply(s Setting, at Origin) Problems {
	switch s.Option {
	case "service":
		return l.addService(s.Value, at)
	case "proxy_port":
		return l.setPort("proxy.http", s.Value, at)
	case "redis_port":
		return l.setPort("redis.address", s.Value, at)
	}
	field, ok := lookup(reflect.ValueOf(&l.file).Elem(), s.Option)
	if !ok {
		return Problems{{At: at, Option: s.Option, Rule: "is not an option"}}
	}
	var before []string
	if list, isList := field.Interface().(*[]string); isList && list != nil {
		before = *list
	}
	if rule := setText(field, s.Value); rule != "" {
		return Problems{{At: at, Option: s.Option, Value: show(s.Option, s.Value), Rule: rule}}
	}
	if before != nil {
		list := field.Interface().(*[]string)
		*list = append(before, *list...)
	}
	l.origins[s.Option] = at
	return nil
}

func (l *layer) setPort(option, text string, at Origin) Problems {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return Problems{{At: at, Option: option, Value: show(option, text), Rule: "must be a port between 0 and 65535"}}
	}
	return l.apply(Setting{Option: option, Value: ":" + strconv.FormatUint(port, 10)}, at)
}

// addService takes "shop:8080". A second instance of one service gets the port
// into its id.
func (l *layer) addService(text string, at Origin) Problems {
	name, digits, ok := strings.Cut(text, ":")
	port, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || port == 0 || !plainName(name) {
		return Problems{{At: at, Option: "service", Value: show("service", text), Rule: `must be NAME:PORT, as in "shop:8080"`}}
	}
	id := name
	if _, taken := l.file.Services[id]; taken {
		id = fmt.Sprintf("%s-%d", name, port)
	}
	if _, taken := l.file.Services[id]; taken {
		return Problems{{At: at, Option: "service", Value: show("service", text), Rule: "is given twice"}}
	}
	if l.file.Services == nil {
		l.file.Services = map[string]*ServiceFile{}
	}
	l.file.Services[id] = &ServiceFile{Name: ptr(name), Port: ptr(int(port))}
	l.origins["service."+id] = at
	l.origins["service."+id+".port"] = at
	return nil
}
