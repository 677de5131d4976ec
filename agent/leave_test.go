package agent

import (
	"strings"
	"sync"
	"testing"
)

// A request that is under way at an agent that leaves keeps its session to its
// end: the table names the agent until then, and so the others answer it.
func TestLeave_requestsUnderWayKeepTheirSessions(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3, 3)
	a, sh, other := s.agents[0], s.shops[0], s.agents[1]
	cookie := s.at(t, a, sh)
	var r reply
	var asking sync.WaitGroup
	asking.Go(func() { r, _ = s.ask(t, a, "/later?book", cookie) })
	release := sync.OnceFunc(func() { close(sh.hold) })
	t.Cleanup(func() { release(); asking.Wait() })
	<-sh.held
	left := make(chan error, 1)
	go func() { left <- a.Leave(t.Context(), false) }()
	s.await(t, "everything is handed over", func() bool { return needed(other.engine.View().Table, a.id.id) == need{} })
	select {
	case err := <-left:
		t.Errorf("it has left while a request was under way: %v", err)
	case <-a.ended:
		t.Error("it has ended while a request was under way")
	default:
	}
	release()
	if asking.Wait(); r.status != 200 || r.shop != sh.name {
		t.Errorf("the request that was under way: %d of %s: %s", r.status, r.shop, r.body)
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
	<-a.ended
	s.await(t, "the others know", func() bool { return needed(other.engine.View().Table, a.id.id).gone })
	if r, _ := s.ask(t, other, "/get", cookie); r.status != 200 || !strings.Contains(r.body, `"cart":"book"`) {
		t.Errorf("what it wrote last: %d %s", r.status, r.body)
	}
}
