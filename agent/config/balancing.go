package config

import (
	"slices"
	"strconv"
	"time"
)

// Balance is how a new client's instance is chosen.
type Balance string

// The ways to choose.
const (
	RoundRobin         Balance = "round_robin"
	WeightedRoundRobin Balance = "weighted_round_robin"
	Random             Balance = "random"
	LeastLoad          Balance = "least_load"
	Hash               Balance = "hash"
)

// QueueFile is the block "queue" of a route.
type QueueFile struct {
	Length  *int      `opt:"length"`
	Timeout *Duration `opt:"timeout"`
}

// Queue bounds the requests that wait while all instances have as much as they
// take.
type Queue struct {
	Length  int // 0: nobody waits
	Timeout time.Duration
}

// OutlierFile is the block "outlier" of a route.
type OutlierFile struct {
	Failures   *int      `opt:"failures"`
	Statuses   *[]string `opt:"statuses"`
	EjectFor   *Duration `opt:"eject_for"`
	MaxEject   *Duration `opt:"max_eject"`
	MaxPercent *int      `opt:"max_percent"`
}

// Outlier says when failures of real traffic take an instance out for a while.
type Outlier struct {
	Failures   int   // in a row; 0: never
	Statuses   []int // of answers that count as failures
	EjectFor   time.Duration
	MaxEject   time.Duration
	MaxPercent int // of the instances, out at a time
}

func defaultQueue() *QueueFile {
	return &QueueFile{Length: ptr(100), Timeout: ptr(Duration(5 * time.Second))}
}

func defaultOutlier() *OutlierFile {
	return &OutlierFile{
		Failures: ptr(5), Statuses: ptr([]string{}), EjectFor: ptr(Duration(10 * time.Second)),
		MaxEject: ptr(Duration(5 * time.Minute)), MaxPercent: ptr(50),
	}
}

func (f *QueueFile) runtime(c *checker, at string) Queue {
	c.between(at+".length", *f.Length, 0, 10_000)
	c.durationBetween(at+".timeout", *f.Timeout, time.Millisecond, 10*time.Minute)
	return Queue{Length: *f.Length, Timeout: time.Duration(*f.Timeout)}
}

func (f *OutlierFile) runtime(c *checker, at string) Outlier {
	c.between(at+".failures", *f.Failures, 0, 1000)
	c.durationBetween(at+".eject_for", *f.EjectFor, 100*time.Millisecond, time.Hour)
	c.durationBetween(at+".max_eject", *f.MaxEject, 100*time.Millisecond, 24*time.Hour)
	if *f.MaxEject < *f.EjectFor {
		c.fail(at+".max_eject", *f.MaxEject, "must not be below eject_for, "+f.EjectFor.String())
	}
	c.between(at+".max_percent", *f.MaxPercent, 0, 100)
	o := Outlier{
		Failures: *f.Failures, EjectFor: time.Duration(*f.EjectFor), MaxEject: time.Duration(*f.MaxEject), MaxPercent: *f.MaxPercent,
	}
	for _, text := range *f.Statuses {
		status, err := strconv.Atoi(text)
		if err != nil || len(text) != 3 || status < 400 || status > 599 {
			c.fail(at+".statuses", text, `must be an error status, as in "503"`)
			continue
		}
		if !slices.Contains(o.Statuses, status) {
			o.Statuses = append(o.Statuses, status)
		}
	}
	return o
}

// hashBalance is a share in percent. At 100 each instance would have to have
// exactly its part.
func (f *RouteFile) hashBalance(c *checker, at string) int {
	n := *f.HashBalance
	if n != 0 && (n < 101 || n > 1000) {
		c.fail(at+".hash_balance_factor", n, "must be between 101 and 1000 percent, or 0 for no bound")
	}
	return n
}

func (f *RouteFile) hashFallback(c *checker, at string) Balance {
	c.oneOf(at+".hash_fallback", *f.HashFallback, string(RoundRobin), string(WeightedRoundRobin), string(Random), string(LeastLoad))
	return Balance(*f.HashFallback)
}
