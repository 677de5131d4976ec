package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Proxy counts proxied requests.
type Proxy struct {
	requests, retries *prometheus.CounterVec
	times             *prometheus.HistogramVec
}

func newProxy(r prometheus.Registerer) Proxy {
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rondel_proxy_request_seconds", Buckets: seconds(),
		Help: "Time from the end of a request's head to the last byte of its answer.",
	}, []string{"route"})
	r.MustRegister(times)
	return Proxy{
		requests: counters(r, "rondel_proxy_requests_total", "Proxied requests by class of answer.", "route", "class"),
		retries:  counters(r, "rondel_proxy_retries_total", "Tries after the first one.", "route"),
		times:    times,
	}
}

// Route returns the figures of one route, for whoever serves it to keep: then
// a request looks nothing up.
func (p *Proxy) Route(name string) *Route {
	r := &Route{retries: p.retries.WithLabelValues(name), time: p.times.WithLabelValues(name)}
	for i, class := range classes() {
		r.classes[i] = p.requests.WithLabelValues(name, class)
	}
	return r
}

// Forget removes the figures of a route that is gone.
func (p *Proxy) Forget(name string) {
	p.retries.DeleteLabelValues(name)
	p.times.DeleteLabelValues(name)
	p.requests.DeletePartialMatch(prometheus.Labels{"route": name})
}

// classes are the values of the label: the first digit of the status, or none
// where the client got no answer.
func classes() [6]string { return [6]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} }

// Route counts the requests of one route.
type Route struct {
	classes [6]prometheus.Counter
	retries prometheus.Counter
	time    prometheus.Observer
}

// Done counts a request that was answered with status after d; 0 means that the
// client got no answer.
func (r *Route) Done(status int, d time.Duration) {
	class := status / 100
	if class < 1 || class > 5 {
		class = 0
	}
	r.classes[class].Inc()
	r.time.Observe(d.Seconds())
}

// Retried counts one more try of a request.
func (r *Route) Retried() { r.retries.Inc() }
