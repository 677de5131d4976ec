package ring

import (
	"fmt"
	"testing"
)

// BenchmarkDraft_rest is a whole plan in which nothing is to be done, which is
// what a leader does about once a second.
func BenchmarkDraft_rest(b *testing.B) {
	for _, n := range []int{3, 30, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b, n, Settings{Replicas: 2})
			for b.Loop() {
				d := NewDraft(w.table)
				d.Homes(&w.seen)
				d.Learners(nil)
				d.Moves(&w.seen)
				d.Shrink(&w.seen)
				d.Retire(nil)
				if !d.Change().Empty() {
					b.Fatal("something was to be done")
				}
			}
		})
	}
}
