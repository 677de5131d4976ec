//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// result is an outcome as it is kept in a file.
type result struct {
	Mode, Fault  string
	Total        tally
	Gaps         []time.Duration
	Healed, Took time.Duration
	Err          string `json:",omitempty"`
}

// loadResults reads what earlier runs have found; a file that is not there holds
// nothing.
func loadResults(file string) (all []*outcome, err error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []result
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for _, r := range list {
		o := &outcome{total: r.Total, gaps: r.Gaps, healed: r.Healed, took: r.Took}
		for _, m := range modes() {
			if m.name == r.Mode {
				o.mode = m
			}
		}
		i := slices.IndexFunc(faults(), func(f fault) bool { return f.name == r.Fault })
		if i < 0 || o.mode.name == "" {
			continue // there is no such fault any more
		}
		o.fault = faults()[i]
		o.promise = o.fault.promise[r.Mode]
		if r.Err != "" {
			o.err = errors.New(r.Err)
		}
		all = append(all, o)
	}
	return all, nil
}

func saveResults(file string, all []*outcome) error {
	if file == "" {
		return nil
	}
	var list []result
	for _, o := range all {
		r := result{Mode: o.mode.name, Fault: o.fault.name, Total: o.total, Gaps: o.gaps, Healed: o.healed, Took: o.took}
		if o.err != nil {
			r.Err = o.err.Error()
		}
		list = append(list, r)
	}
	b, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// replaced returns all with o in the place of what was found of its fault
// before, in the order in which faults strike.
func replaced(all []*outcome, o *outcome) []*outcome {
	all = slices.DeleteFunc(all, func(x *outcome) bool { return x.mode.name == o.mode.name && x.fault.name == o.fault.name })
	all = append(all, o)
	place := func(x *outcome) int {
		return slices.IndexFunc(faults(), func(f fault) bool { return f.name == x.fault.name })
	}
	slices.SortStableFunc(all, func(x, y *outcome) int { return place(x) - place(y) })
	return all
}

func savePage(s settings, p page) error {
	if s.report == "" {
		return nil
	}
	var b bytes.Buffer
	if err := writeReport(&b, p); err != nil {
		return err
	}
	return os.WriteFile(s.report, b.Bytes(), 0o644)
}
