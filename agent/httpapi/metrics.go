package httpapi

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// metrics is the JSON form of all figures.
type metrics struct {
	Timestamp  time.Time   `json:"Timestamp"`
	Gauges     []value     `json:"Gauges"`
	Counters   []value     `json:"Counters"`
	Histograms []histogram `json:"Histograms"`
}

type value struct {
	Name   string            `json:"Name"`
	Labels map[string]string `json:"Labels"`
	Value  number            `json:"Value"`
}

type histogram struct {
	Name    string            `json:"Name"`
	Labels  map[string]string `json:"Labels"`
	Count   uint64            `json:"Count"`
	Sum     number            `json:"Sum"`
	Buckets []bucket          `json:"Buckets"`
}

// bucket counts the observations up to a bound, those of smaller ones among
// them.
type bucket struct {
	Bound number `json:"Bound"`
	Count uint64 `json:"Count"`
}

// number is a float that may be no JSON number: those are strings.
type number float64

// MarshalJSON writes "NaN" and "+Inf" as strings.
func (n number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.AppendQuote(nil, strconv.FormatFloat(f, 'g', -1, 64)), nil
	}
	return json.Marshal(f)
}

func (s *Server) agentMetrics(w http.ResponseWriter, r *request) error {
	switch format := r.query.Get("format"); format {
	case "prometheus":
		promhttp.HandlerFor(s.o.Metrics, promhttp.HandlerOpts{
			ErrorLog:      s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Error}),
			ErrorHandling: promhttp.ContinueOnError,
		}).ServeHTTP(w, r.Request)
		return nil
	case "", "json":
	default:
		return badRequest("?format=%q: want json or prometheus", format)
	}
	families, err := s.o.Metrics.Gather()
	if err != nil && len(families) == 0 {
		return err
	}
	out := metrics{Timestamp: time.Now().UTC(), Gauges: []value{}, Counters: []value{}, Histograms: []histogram{}}
	for _, family := range families {
		for _, m := range family.Metric {
			out.add(family.GetName(), m)
		}
	}
	return r.answer(w, out)
}

func (out *metrics) add(name string, m *dto.Metric) {
	labels := make(map[string]string, len(m.Label))
	for _, l := range m.Label {
		labels[l.GetName()] = l.GetValue()
	}
	switch {
	case m.Gauge != nil:
		out.Gauges = append(out.Gauges, value{name, labels, number(m.Gauge.GetValue())})
	case m.Untyped != nil:
		out.Gauges = append(out.Gauges, value{name, labels, number(m.Untyped.GetValue())})
	case m.Counter != nil:
		out.Counters = append(out.Counters, value{name, labels, number(m.Counter.GetValue())})
	case m.Histogram != nil:
		h := histogram{name, labels, m.Histogram.GetSampleCount(), number(m.Histogram.GetSampleSum()), []bucket{}}
		for _, b := range m.Histogram.Bucket {
			h.Buckets = append(h.Buckets, bucket{number(b.GetUpperBound()), b.GetCumulativeCount()})
		}
		out.Histograms = append(out.Histograms, h)
	case m.Summary != nil:
		h := histogram{name, labels, m.Summary.GetSampleCount(), number(m.Summary.GetSampleSum()), []bucket{}}
		out.Histograms = append(out.Histograms, h)
	}
}
