package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

type tests func() int

func (f tests) Run() int { return f() }

func TestRun(t *testing.T) {
	others := goleak.IgnoreCurrent()
	for name, c := range map[string]struct {
		f    func(release <-chan struct{}) int
		most time.Duration
		code int
	}{
		"nothing is left": {func(<-chan struct{}) int { return 0 }, time.Minute, 0},
		"a test fails":    {func(<-chan struct{}) int { return 3 }, time.Minute, 3},
		"one stays":       {func(c <-chan struct{}) int { go func() { <-c }(); return 0 }, 0, 1},
		"one ends late": {func(<-chan struct{}) int {
			late := time.NewTimer(time.Second) // goleak by itself waits for half of that
			go func() { <-late.C }()
			return 0
		}, time.Minute, 0},
	} {
		release := make(chan struct{})
		code := run(tests(func() int { return c.f(release) }), c.most, others)
		close(release)
		if code != c.code {
			t.Errorf("%s: code %d, want %d", name, code, c.code)
		}
	}
}
