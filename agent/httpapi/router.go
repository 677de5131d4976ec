package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rondel-project/rondel/api"
)

// route is one line of the table in routes.go. In a pattern, ":name" stands for
// one segment of the path, which is decoded once and handed to the handler.
type route struct {
	method  string
	pattern string
	handle  func(http.ResponseWriter, *request) error
	query   string // the parameters that it knows beside pretty, with a space between them
}

// node is a place in the tree of paths.
type node struct {
	literal map[string]*node
	param   *node
	routes  []route // of the path that ends here
}

func newTree(table []route) *node {
	root := &node{}
	for _, r := range table {
		n := root
		for segment := range strings.SplitSeq(r.pattern[1:], "/") {
			n = n.child(segment)
		}
		n.routes = append(n.routes, r)
	}
	return root
}

func (n *node) child(segment string) *node {
	if segment[0] == ':' {
		if n.param == nil {
			n.param = &node{}
		}
		return n.param
	}
	if n.literal == nil {
		n.literal = make(map[string]*node)
	}
	if n.literal[segment] == nil {
		n.literal[segment] = &node{}
	}
	return n.literal[segment]
}

// maxParams is how many names a path can hold.
const maxParams = 2

// find walks the escaped path. Each segment is decoded only after the path has
// been cut at its slashes, so an escaped slash stays part of a name.
func (n *node) find(escaped string) (at *node, params [maxParams]string, err error) {
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return nil, params, nil
	}
	used := 0
	for {
		segment, more, slash := strings.Cut(rest, "/")
		next := n.literal[segment]
		if next == nil && n.param != nil && used < maxParams {
			name, err := url.PathUnescape(segment)
			if err != nil {
				return nil, params, failure(http.StatusBadRequest, api.CodeBadName, "the path is not percent-encoded correctly: %s", err)
			}
			params[used] = name
			used++
			next = n.param
		}
		if next == nil {
			return nil, params, nil
		}
		n, rest = next, more
		if !slash {
			return n, params, nil
		}
	}
}

// pick returns the route for the method. HEAD is GET without a body.
func (n *node) pick(method string) (route, bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, r := range n.routes {
		if r.method == method {
			return r, true
		}
	}
	return route{}, false
}

// allow lists the methods of the path.
func (n *node) allow() string {
	var out []string
	for _, r := range n.routes {
		out = append(out, r.method)
		if r.method == http.MethodGet {
			out = append(out, http.MethodHead)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
