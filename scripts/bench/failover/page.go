package main

import (
	_ "embed"
	"os"
	"text/template"
	"time"
)

//go:embed page.md.tmpl
var pageText string

// page writes the page of the website.
func page(file string, p plan, rounds int, took time.Duration, tables string) error {
	form, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	err = form.Execute(out, map[string]any{
		"Rate": p.rate, "Clients": p.clients, "Each": p.each.Seconds(), "Kill": p.kill.Seconds(), "Work": p.work.Milliseconds(),
		"Sent": len(p.requests()), "Rounds": rounds, "Took": took.Round(time.Second), "Table": tables,
	})
	if err != nil {
		return err
	}
	return out.Close()
}
