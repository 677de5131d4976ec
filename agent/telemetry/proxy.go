package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Proxy counts proxied requests.
type Proxy struct {
	requests, retries, bytes *prometheus.CounterVec
	times, queued            *prometheus.HistogramVec
}

func newProxy(r prometheus.Registerer) Proxy {
	times := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rondel_proxy_request_seconds", Buckets: seconds(),
		Help: "Time from the end of a request's head to the last byte of its answer.",
	}, []string{"route"})
	queued := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rondel_proxy_queue_seconds", Buckets: seconds(),
		Help: "Time that requests stood in line until an instance had room, of those that had to.",
	}, []string{"route"})
	r.MustRegister(times, queued)
	return Proxy{
		requests: counters(r, "rondel_proxy_requests_total", "Proxied requests by class of answer.", "route", "class"),
		retries:  counters(r, "rondel_proxy_retries_total", "Tries after the first one.", "route"),
		bytes:    counters(r, "rondel_proxy_bytes_total", "Bytes from (in) and to (out) clients, without TLS.", "route", "direction"),
		times:    times,
		queued:   queued,
	}
}

// Route returns the figures of one route, for whoever serves it to keep: then
// a request looks nothing up.
func (p *Proxy) Route(name string) *Route {
	r := &Route{retries: p.retries.WithLabelValues(name), time: p.times.WithLabelValues(name), queue: p.queued.WithLabelValues(name),
		in: p.bytes.WithLabelValues(name, "in"), out: p.bytes.WithLabelValues(name, "out")}
	for i, class := range classes() {
		r.classes[i] = p.requests.WithLabelValues(name, class)
	}
	return r
}

// Forget removes the figures of a route that is gone.
func (p *Proxy) Forget(name string) {
	p.retries.DeleteLabelValues(name)
	p.times.DeleteLabelValues(name)
	p.queued.DeleteLabelValues(name)
	p.bytes.DeletePartialMatch(prometheus.Labels{"route": name})
	p.requests.DeletePartialMatch(prometheus.Labels{"route": name})
}

// classes are the values of the label: the first digit of the status, or none
// where the client got no answer.
func classes() [6]string { return [6]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} }

// Route counts the requests of one route.
type Route struct {
	classes [6]prometheus.Counter
	retries prometheus.Counter
	in, out prometheus.Counter
	time    prometheus.Observer
	queue   prometheus.Observer
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

// Passed counts bytes from the client and to it.
func (r *Route) Passed(in, out int64) {
	r.in.Add(float64(max(in, 0)))
	r.out.Add(float64(max(out, 0)))
}

// Queued counts a request that stood in line for d.
func (r *Route) Queued(d time.Duration) { r.queue.Observe(d.Seconds()) }

// Retried counts one more try of a request.
func (r *Route) Retried() { r.retries.Inc() }
