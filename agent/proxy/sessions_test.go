package proxy

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/member"
)

// fakeSessions issues ids "<version>~<slot>~<age>~<random>" and answers what the test says.
type fakeSessions struct {
	mu         sync.Mutex
	owners     map[uint16]member.ID
	successors []member.ID
	settled    time.Duration
	age        time.Duration // of ids that are minted
	dead       map[string]bool
	mute       bool // Exists cannot say
	noTable    bool
	asked      int
	touched    int
	minted     int
}

func newSessions() *fakeSessions {
	return &fakeSessions{owners: map[uint16]member.ID{1: "m1", 2: "m2", 3: "m3", 4: "m4"}, dead: map[string]bool{}}
}

func (s *fakeSessions) Mint(m member.ID) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noTable {
		return "", false
	}
	s.minted++
	slot := uint16(1)
	for n, o := range s.owners {
		if o == m {
			slot = n
		}
	}
	return fmt.Sprintf("v1~%d~%d~%s", slot, time.Now().Add(-s.age).Unix(), rand.Text()), true
}

func (s *fakeSessions) Parse(id string) (uint16, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := strings.Split(id, "~")
	if len(p) != 4 || p[0] != "v1" && p[0] != "v9" {
		return 0, time.Time{}, ErrForeign
	}
	if p[0] == "v9" || s.noTable {
		return 0, time.Time{}, ErrUnknownKey
	}
	var slot uint16
	var at int64
	fmt.Sscan(p[1], &slot)
	fmt.Sscan(p[2], &at)
	return slot, time.Unix(at, 0), nil
}

func (s *fakeSessions) Locate(slot uint16) (member.ID, []member.ID, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owners[slot], s.successors, s.settled
}

func (s *fakeSessions) Exists(ctx context.Context, id string) (bool, bool) {
	s.mu.Lock()
	mute := s.mute
	s.asked++
	dead := s.dead[id]
	s.mu.Unlock()
	if mute {
		<-ctx.Done()
		return false, false
	}
	return !dead, true
}

func (s *fakeSessions) Ended(_ context.Context, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead[id]
}

func (s *fakeSessions) Touch(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touched++
}

func (s *fakeSessions) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}
