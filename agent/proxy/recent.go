package proxy

import (
	"sync"

	"github.com/cespare/xxhash/v2"
)

const recentShards = 64

// recent remembers things under names, as many as fit, those that were asked
// for last. Each shard has two halves that take turns, so forgetting costs
// nothing.
type recent[V any] struct {
	half   int // names in each half of a shard
	shards [recentShards]recentShard[V]
}

type recentShard[V any] struct {
	mu       sync.Mutex // guards now and old
	now, old map[string]V
}

// newRecent remembers at most 128 times half.
func newRecent[V any](half int) *recent[V] { return &recent[V]{half: half} }

func (r *recent[V]) shard(name string) *recentShard[V] {
	return &r.shards[xxhash.Sum64String(name)%recentShards]
}

func (r *recent[V]) get(name string) (v V, ok bool) {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok = s.now[name]; ok {
		return v, true
	}
	if v, ok = s.old[name]; ok {
		s.putLocked(name, v, r.half)
	}
	return v, ok
}

func (r *recent[V]) put(name string, v V) {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putLocked(name, v, r.half)
}

func (r *recent[V]) forget(name string) {
	s := r.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.now, name)
	delete(s.old, name)
}

func (s *recentShard[V]) putLocked(name string, v V, half int) {
	if s.now == nil || len(s.now) >= half {
		s.now, s.old = map[string]V{}, s.now
	}
	s.now[name] = v
}
