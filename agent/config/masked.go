package config

import "encoding/json"

// Masked returns the options of a running agent as people may see them: in
// canonical form, keys hidden. Blocks are listed by name.
func Masked(r Runtime) map[string]any {
	out := map[string]any{}
	for option, v := range flatten(r) {
		switch option {
		case "service", "route":
		default:
			out[option] = plain(canonical(option, v.value))
		}
	}
	services, routes := []string{}, []string{}
	for _, s := range r.Services {
		services = append(services, s.ID)
	}
	for _, x := range r.Routes {
		routes = append(routes, x.Name)
	}
	out["service"], out["route"] = services, routes
	return out
}

// plain turns a canonical text into the JSON value that it spells; what spells
// none, as a hidden key, stays text.
func plain(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		return v
	}
	return text
}
