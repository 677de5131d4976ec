package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
)

const (
	sampleEvery = time.Second
	halfLife    = 3 * time.Second
)

// Counters is what the proxy knows. It must not block.
type Counters func() (inFlight int, requests uint64)

// Times returns the seconds that all processors together were busy and idle
// since some moment in the past. It may block for a short while.
type Times func(ctx context.Context) (busy, idle float64, err error)

// SystemTimes asks the operating system.
func SystemTimes(ctx context.Context) (busy, idle float64, err error) {
	all, err := cpu.TimesWithContext(ctx, false)
	if err != nil {
		return 0, 0, fmt.Errorf("read processor times: %w", err)
	}
	for _, t := range all {
		idle += t.Idle + t.Iowait
		busy += t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal
	}
	return busy, idle, nil
}

// Sampler measures this machine's load. Its methods may be used from any
// goroutine.
type Sampler struct {
	counters Counters
	times    Times
	onError  func(error)

	mu       sync.Mutex
	cpu      Average
	rate     Average
	lastAt   time.Time
	busy     float64
	idle     float64
	requests uint64
}

// NewSampler returns a sampler. Counters may be nil where there is no proxy,
// times nil means SystemTimes. OnError, which may be nil, is told when the
// system stops or starts giving its times (nil error), once each.
func NewSampler(counters Counters, times Times, onError func(error)) *Sampler {
	if counters == nil {
		counters = func() (int, uint64) { return 0, 0 }
	}
	if times == nil {
		times = SystemTimes
	}
	if onError == nil {
		onError = func(error) {}
	}
	return &Sampler{
		counters: counters, times: times, onError: onError,
		cpu: Average{HalfLife: halfLife}, rate: Average{HalfLife: halfLife},
	}
}

// Run samples each second until ctx ends.
func (s *Sampler) Run(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	failing := false
	for {
		err := s.Sample(ctx, time.Now())
		if ctx.Err() != nil {
			return nil
		}
		if (err != nil) != failing {
			failing = err != nil
			s.onError(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Sample takes one measurement now. The rate goes on where the processor times
// fail.
func (s *Sampler) Sample(ctx context.Context, now time.Time) error {
	busy, idle, err := s.times(ctx)
	_, requests := s.counters()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lastAt.IsZero() {
		if dt := now.Sub(s.lastAt).Seconds(); dt > 0 && requests >= s.requests {
			s.rate.Add(float64(requests-s.requests)/dt, now)
		}
		// Counters of a machine that was suspended may run backwards.
		db, di := busy-s.busy, idle-s.idle
		if err == nil && db >= 0 && di >= 0 && db+di > 0 {
			s.cpu.Add(db/(db+di), now)
		}
	}
	s.lastAt, s.requests = now, requests
	if err == nil {
		s.busy, s.idle = busy, idle
	}
	return err
}

// Load returns the load as of the last sample; requests in flight are as of
// now.
func (s *Sampler) Load() Load {
	inFlight, _ := s.counters()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{CPU: s.cpu.Value(), InFlight: inFlight, RequestRate: s.rate.Value()}
}
