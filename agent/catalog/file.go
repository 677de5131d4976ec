package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rondel-project/rondel/agent/internal/wholefile"
)

const (
	fileName   = "services.json"
	fileFormat = 1
)

// ErrBrokenFile means that the file of registrations cannot be understood.
var ErrBrokenFile = errors.New("the file of registered services is broken")

// document is the file: what was registered by API, and what operators set on
// any instance.
type document struct {
	Format      int
	Services    []Registration
	Maintenance map[string]string `json:",omitempty"` // id to reason
	Draining    []string          `json:",omitempty"`
	Drains      map[string]Drain  `json:",omitempty"` // more about those that drain
	Weights     map[string]set    `json:",omitempty"`
}

// docOf is the document for the instances given, with n in place of id.
func docOf(own map[string]*owned, id string, n *owned) document {
	doc := document{Format: fileFormat, Services: []Registration{}, Maintenance: map[string]string{}, Drains: map[string]Drain{}, Weights: map[string]set{}}
	add := func(id string, o *owned) {
		if !o.configured && o.reg.Name != "" {
			doc.Services = append(doc.Services, o.reg)
		}
		if o.maint {
			doc.Maintenance[id] = o.reason
		}
		if o.drain != nil {
			doc.Draining = append(doc.Draining, id)
			if *o.drain != (Drain{}) {
				doc.Drains[id] = *o.drain
			}
		}
		if o.set != nil {
			doc.Weights[id] = *o.set
		}
	}
	for other, o := range own {
		if other != id {
			add(other, o)
		}
	}
	if n != nil {
		add(id, n)
	}
	slices.SortFunc(doc.Services, func(a, b Registration) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(doc.Draining)
	return doc
}

// instances is the inverse of docOf. What was set on a configured instance is
// kept under an empty registration until the configuration brings it.
func (d document) instances() map[string]*owned {
	own := map[string]*owned{}
	at := func(id string) *owned {
		if own[id] == nil {
			own[id] = &owned{}
		}
		return own[id]
	}
	for _, r := range d.Services {
		o := at(r.ID)
		o.reg = r
		for range r.Checks {
			o.checks = append(o.checks, CheckState{Health: Critical, Reason: "not checked yet", Since: time.Now()})
		}
	}
	for id, reason := range d.Maintenance {
		at(id).maint, at(id).reason = true, cut(reason)
	}
	for _, id := range d.Draining {
		d := d.Drains[id]
		d.Reason = cut(d.Reason)
		at(id).drain = &d
	}
	for id, w := range d.Weights {
		w.Weight = min(max(w.Weight, 0), MaxWeight)
		at(id).set = &w
	}
	return own
}

func readFile(dir string) (document, error) {
	if dir == "" {
		return document{}, nil
	}
	path := filepath.Join(dir, fileName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return document{}, nil
	}
	if err != nil {
		return document{}, fmt.Errorf("read registered services: %w", err)
	}
	doc, err := parse(b)
	if err != nil {
		return document{}, fmt.Errorf("%s: %w: %w; repair it, or move it away to start without what was registered", path, ErrBrokenFile, err)
	}
	return doc, nil
}

func parse(b []byte) (document, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var doc document
	if err := dec.Decode(&doc); err != nil {
		return document{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return document{}, errors.New("something follows the JSON document")
	}
	if doc.Format != fileFormat {
		return document{}, fmt.Errorf("format %d, this version knows %d", doc.Format, fileFormat)
	}
	regs, err := ValidateAll(doc.Services)
	if err != nil {
		return document{}, err
	}
	doc.Services = regs
	return doc, nil
}

// writeFile replaces the file by one that is whole and on disk.
func writeFile(dir string, doc document) error {
	if dir == "" {
		return nil
	}
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("keep registered services: %w", err)
	}
	if err := wholefile.Write(filepath.Join(dir, fileName), append(b, '\n')); err != nil {
		return fmt.Errorf("keep registered services: %w", err)
	}
	return nil
}
