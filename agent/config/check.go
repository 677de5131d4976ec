package config

import (
	"strconv"
	"strings"
	"time"
)

// CheckFile is a block "check" in a service. Exactly one of HTTP, TCP and TTL
// says what kind it is.
type CheckFile struct {
	HTTP     *string   `opt:"http"`
	TCP      *string   `opt:"tcp"`
	TTL      *Duration `opt:"ttl"`
	Interval *Duration `opt:"interval"`
	Timeout  *Duration `opt:"timeout"`

	Method    *string `opt:"method"`
	Host      *string `opt:"host"`
	Scheme    *string `opt:"scheme"`
	Healthy   *string `opt:"healthy"`
	Warning   *string `opt:"warning"`
	Contains  *string `opt:"contains"`
	BodyLimit *Size   `opt:"body_limit"`
	Rise      *int    `opt:"rise"`
	Fall      *int    `opt:"fall"`
}

// Check is one health check. One of HTTP, TCP and TTL is set.
type Check struct {
	HTTP     string // a path of the instance, or a whole URL
	TCP      string // host:port or :port of the instance
	TTL      time.Duration
	Interval time.Duration
	Timeout  time.Duration

	Method    string // of HTTP
	Host      string // header; "": the instance's address
	Scheme    string // of a path; "": as the instance's protocol
	Status    string // of healthy answers
	Warning   string // of answers that are a warning
	Contains  string
	BodyLimit int64
	Rise      int // successes in a row
	Fall      int // failures in a row
}

func defaultCheck() *CheckFile {
	return &CheckFile{
		HTTP: ptr(""), TCP: ptr(""), TTL: ptr(Duration(0)), Interval: ptr(Duration(2 * time.Second)), Timeout: ptr(Duration(time.Second)),
		Method: ptr("GET"), Host: ptr(""), Scheme: ptr(""), Healthy: ptr("200-399"), Warning: ptr("429"),
		Contains: ptr(""), BodyLimit: ptr(Size(64 << 10)), Rise: ptr(1), Fall: ptr(1),
	}
}

func (f *CheckFile) runtime(c *checker, at string) Check {
	layered := merge(defaultCheck(), f)
	kinds := 0
	for _, set := range []bool{f.HTTP != nil, f.TCP != nil, f.TTL != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		c.fail(at, "", "needs exactly one of http, tcp and ttl")
	}
	if f.HTTP != nil && !strings.HasPrefix(*f.HTTP, "/") && !strings.HasPrefix(*f.HTTP, "http://") && !strings.HasPrefix(*f.HTTP, "https://") {
		c.fail(at+".http", *f.HTTP, `must be a path of the instance, as in "/health", or a URL`)
	}
	if f.TCP != nil {
		if _, _, ok := splitHostPort(*f.TCP); !ok {
			c.fail(at+".tcp", *f.TCP, `must be ":PORT" or "HOST:PORT"`)
		}
	}
	if f.TTL != nil {
		c.durationBetween(at+".ttl", *f.TTL, 100*time.Millisecond, 24*time.Hour)
	}
	c.durationBetween(at+".interval", *layered.Interval, 10*time.Millisecond, 24*time.Hour)
	c.durationBetween(at+".timeout", *layered.Timeout, time.Millisecond, time.Hour)
	if f.Timeout == nil && *layered.Timeout >= *layered.Interval {
		layered.Timeout = ptr(*layered.Interval / 2)
	}
	if *layered.Timeout >= *layered.Interval && f.TTL == nil {
		c.fail(at+".timeout", *layered.Timeout, "must be below the check's interval, "+layered.Interval.String())
	}
	layered.answer(c, at)
	return Check{
		HTTP: *layered.HTTP, TCP: *layered.TCP, TTL: time.Duration(*layered.TTL),
		Interval: time.Duration(*layered.Interval), Timeout: time.Duration(*layered.Timeout),
		Method: *layered.Method, Host: *layered.Host, Scheme: *layered.Scheme, Status: *layered.Healthy, Warning: *layered.Warning,
		Contains: *layered.Contains, BodyLimit: int64(*layered.BodyLimit), Rise: *layered.Rise, Fall: *layered.Fall,
	}
}

// answer checks what is asked, and what is expected.
func (f *CheckFile) answer(c *checker, at string) {
	if strings.ToUpper(*f.Method) != *f.Method || !token(*f.Method) {
		c.fail(at+".method", *f.Method, `must be a method, as in "HEAD"`)
	}
	if strings.ContainsFunc(*f.Host, func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }) {
		c.fail(at+".host", *f.Host, `must be what a Host header says, as in "shop.example.com"`)
	}
	if *f.Scheme != "" {
		c.oneOf(at+".scheme", *f.Scheme, "http", "https")
	}
	for option, text := range map[string]string{"healthy": *f.Healthy, "warning": *f.Warning} {
		if !statuses(text) {
			c.fail(at+"."+option, text, `must be statuses and ranges of them, as in "200-299,401"`)
		}
	}
	c.sizeBetween(at+".body_limit", *f.BodyLimit, 1, 16<<20)
	c.between(at+".rise", *f.Rise, 1, 100)
	c.between(at+".fall", *f.Fall, 1, 100)
}

func statuses(text string) bool {
	for _, one := range strings.Split(text, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(one), "-")
		if !ranged {
			to = from
		}
		low, err := strconv.Atoi(from)
		high, herr := strconv.Atoi(to)
		if err != nil || herr != nil || len(from) != 3 || len(to) != 3 || low < 100 || high > 599 || low > high {
			return false
		}
	}
	return true
}
