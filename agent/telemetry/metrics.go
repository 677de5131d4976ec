package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
)

// Metrics are all figures of one agent. It is a prometheus.Gatherer.
type Metrics struct {
	Sessions Sessions
	Proxy    Proxy

	registry *prometheus.Registry
}

// New returns figures that are all zero.
func New() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return &Metrics{Sessions: newSessions(r), Proxy: newProxy(r), registry: r}
}

// Gather reads all figures.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) { return m.registry.Gather() }

// seconds are the bounds of every histogram of durations: from a write inside
// one machine to a request that a user gave up.
func seconds() []float64 {
	return []float64{0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10}
}

func counters(r prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func histogram(r prometheus.Registerer, name, help string) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds()})
	r.MustRegister(h)
	return h
}
