package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/zclconf/go-cty/cty"
)

// layer is a File and where each of its options was written.
type layer struct {
	file    File
	origins Origins
}

func newLayer() layer { return layer{origins: Origins{}} }

type decoder struct {
	layer
	source   string
	text     []byte
	problems Problems
}

// decode reads one file. The format follows the suffix; a file of another name
// is JSON if its first character is a brace, else HCL.
func decode(source string, text []byte) (layer, Problems) {
	d := &decoder{layer: newLayer(), source: source, text: text}
	parser := hclparse.NewParser()
	parse := parser.ParseHCL
	if isJSON(source, text) {
		parse = parser.ParseJSON
	}
	file, diags := parse(text, source)
	d.report("", diags)
	if file != nil && file.Body != nil && !diags.HasErrors() {
		d.body(file.Body, reflect.ValueOf(&d.file).Elem(), "")
	}
	return d.layer, d.problems
}

func isJSON(source string, text []byte) bool {
	switch filepath.Ext(source) {
	case ".json":
		return true
	case ".hcl":
		return false
	}
	return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
}

func (d *decoder) body(body hcl.Body, into reflect.Value, path string) {
	opts := options(into.Type())
	schema := &hcl.BodySchema{}
	for _, o := range opts {
		switch o.kind {
		case attribute:
			schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: o.name})
		case labelled:
			schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: o.name, LabelNames: []string{"name"}})
		default:
			schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: o.name})
		}
	}
	content, diags := body.Content(schema)
	d.report(path, diags)
	if content == nil {
		return
	}
	for _, o := range opts {
		if attr, ok := content.Attributes[o.name]; ok && o.kind == attribute {
			d.attribute(attr, into.Field(o.index), join(path, o.name))
			continue
		}
		for _, block := range content.Blocks {
			if block.Type == o.name {
				d.block(block, o, into.Field(o.index), join(path, o.name))
			}
		}
	}
}

func (d *decoder) block(block *hcl.Block, o option, field reflect.Value, path string) {
	at := d.origin(block.DefRange)
	switch o.kind {
	case labelled:
		path = join(path, block.Labels[0])
	case repeated:
		path = nth(path, field.Len())
	}
	if first, again := d.origins[path]; again {
		d.problems = append(d.problems, Problem{At: at, Option: path, Rule: "is given twice in one file, first in line " + fmt.Sprint(first.Line)})
		return
	}
	d.origins[path] = at
	elem := field.Type().Elem()
	if o.kind != section {
		elem = elem.Elem()
	}
	into := reflect.New(elem)
	d.body(block.Body, into.Elem(), path)
	switch o.kind {
	case section:
		field.Set(into)
	case repeated:
		field.Set(reflect.Append(field, into))
	case labelled:
		if field.IsNil() {
			field.Set(reflect.MakeMap(field.Type()))
		}
		field.SetMapIndex(reflect.ValueOf(block.Labels[0]), into)
	}
}

func (d *decoder) attribute(attr *hcl.Attribute, field reflect.Value, path string) {
	at := d.origin(attr.NameRange)
	value, diags := attr.Expr.Value(nil)
	if diags.HasErrors() {
		d.report(path, diags)
		return
	}
	rule := d.set(field, value)
	if rule != "" {
		shown := string(attr.Expr.Range().SliceBytes(d.text))
		if path == "encrypt" {
			shown = "(hidden)"
		}
		d.problems = append(d.problems, Problem{At: at, Option: path, Value: oneLine(shown), Rule: rule})
		return
	}
	d.origins[path] = at
}

func (d *decoder) set(field reflect.Value, value cty.Value) (rule string) {
	if value.IsNull() {
		return "null is no value; leave the option out to get the default"
	}
	if text, ok := scalarText(value); ok {
		return setText(field, text)
	}
	if _, list := field.Interface().(*[]string); !list {
		return "must be a single value, not a list or an object"
	}
	if !value.Type().IsTupleType() {
		return `must be a list of texts, as in ["a", "b"]`
	}
	out := []string{}
	for it := value.ElementIterator(); it.Next(); {
		_, item := it.Element()
		text, ok := scalarText(item)
		if !ok || item.IsNull() {
			return `must be a list of texts, as in ["a", "b"]`
		}
		out = append(out, text)
	}
	field.Set(reflect.ValueOf(&out))
	return ""
}

// scalarText writes a value as it would be typed behind a flag.
func scalarText(value cty.Value) (string, bool) {
	switch {
	case value.IsNull() || !value.IsKnown():
		return "", false
	case value.Type() == cty.String:
		return value.AsString(), true
	case value.Type() == cty.Number:
		return value.AsBigFloat().Text('f', -1), true
	case value.Type() == cty.Bool:
		return fmt.Sprint(value.True()), true
	}
	return "", false
}

func (d *decoder) origin(r hcl.Range) Origin { return Origin{Source: d.source, Line: r.Start.Line} }

// report turns the parser's diagnostics into problems. Where the parser points
// at a name that is not expected, that name is the option.
func (d *decoder) report(path string, diags hcl.Diagnostics) {
	for _, diag := range diags {
		p := Problem{At: Origin{Source: d.source}, Option: path, Rule: diag.Summary + ": " + diag.Detail}
		if diag.Subject != nil {
			p.At.Line = diag.Subject.Start.Line
			if name := strings.Trim(string(diag.Subject.SliceBytes(d.text)), `"`); plainName(name) {
				p.Option = join(path, name)
			}
		}
		p.Rule = oneLine(p.Rule)
		d.problems = append(d.problems, p)
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// nth names one of several blocks without a label, counting from 1.
func nth(path string, index int) string { return fmt.Sprintf("%s[%d]", path, index+1) }

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 400 {
		return string(r[:400]) + "…"
	}
	return s
}
