package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificate is one that the proxy shows.
type Certificate struct {
	Source  string // the file it is from, or who brought it
	Name    string // the first that it is for
	Expires time.Time
}

// certificates shows when each ends.
type certificates struct {
	list func() []Certificate
	desc *prometheus.Desc
}

func newCertificates(list func() []Certificate) *certificates {
	return &certificates{list: list, desc: prometheus.NewDesc("rondel_proxy_certificate_expires_seconds",
		"When a certificate of the proxy expires, in seconds since 1970.", []string{"source", "name"}, nil)}
}

func (c *certificates) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c *certificates) Collect(ch chan<- prometheus.Metric) {
	seen := map[[2]string]bool{}
	for _, one := range c.list() {
		key := [2]string{one.Source, one.Name}
		if seen[key] {
			continue // configured twice
		}
		seen[key] = true
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(one.Expires.Unix()), one.Source, one.Name)
	}
}
