package leader

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// play carries out steps until there are none, and checks after each that a
// majority of the voters is alive whenever one was.
func play(t interface{ Fatalf(string, ...any) }, e Electorate) []Server {
	quorum := func(list []Server) bool {
		n, alive := 0, 0
		for _, s := range list {
			if s.Voter {
				n++
				if e.Alive(s.ID) {
					alive++
				}
			}
		}
		return alive > n/2
	}
	had := quorum(e.Servers)
	for range 50 {
		step, ok := NextStep(e)
		if !ok || step.Kind == StepTransfer {
			return e.Servers
		}
		next := slices.DeleteFunc(slices.Clone(e.Servers), func(s Server) bool { return s.ID == step.Server.ID })
		switch step.Kind {
		case StepDemote:
			next = append(next, Server{step.Server.ID, step.Server.Addr, false})
		case StepPromote, StepAdd, StepReaddress:
			next = append(next, step.Server)
		}
		if had && !quorum(next) {
			t.Fatalf("%+v leaves no quorum in %v", step, next)
		}
		if slices.EqualFunc(next, e.Servers, func(a, b Server) bool { return a == b }) {
			t.Fatalf("%+v changes nothing", step)
		}
		e.Servers = next
	}
	t.Fatalf("never at rest")
	return nil
}

func voters(list []Server) (n int) {
	for _, s := range list {
		if s.Voter {
			n++
		}
	}
	return n
}

func electorate(n int) Electorate {
	table := &ring.Table{}
	for i := range n {
		table.Members = append(table.Members, ring.Member{Num: member.Number(i + 1), ID: id(i + 1), Addr: "h", State: ring.Up})
	}
	yes := func(member.ID) bool { return true }
	return Electorate{Self: id(1), Table: table, Servers: []Server{{id(1), "h", true}}, Alive: yes, Ready: yes}
}

func TestNextStep_grows(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][2]int{1: {1, 1}, 2: {1, 2}, 3: {3, 3}, 6: {3, 6}, 7: {5, 7}, 9: {5, 9}, 30: {5, 9}} {
		got := play(t, electorate(n))
		if voters(got) != want[0] || len(got) != want[1] {
			t.Errorf("%d members: %d voters of %d servers", n, voters(got), len(got))
		}
		for _, s := range got {
			if m := electorate(n).Table.ByID(s.ID); s.Voter && int(m.Num) > want[0] {
				t.Errorf("%d members: member %d votes", n, m.Num)
			}
		}
	}
}

func TestNextStep_cases(t *testing.T) {
	t.Parallel()
	three := []Server{{id(1), "h", true}, {id(2), "h", true}, {id(3), "h", true}}
	not := func(who ...int) func(member.ID) bool {
		return func(x member.ID) bool {
			return !slices.ContainsFunc(who, func(i int) bool { return id(i) == x })
		}
	}
	for name, c := range map[string]struct {
		edit func(*Electorate)
		want Step
	}{
		"a voter that is only down keeps its vote": {
			func(e *Electorate) { e.Servers, e.Alive = append(three, Server{id(4), "h", false}), not(3) }, Step{},
		},
		"another address": {
			func(e *Electorate) { e.Servers = append(three, Server{id(4), "old", false}) },
			Step{StepReaddress, Server{id(4), "h", false}},
		},
		"no vote before it has caught up": {
			func(e *Electorate) {
				e.Servers = []Server{{id(1), "h", true}, {id(2), "h", false}, {id(3), "h", false}, {id(4), "h", false}}
				e.Ready = not(2, 3, 4)
			}, Step{},
		},
		"no second voter without a third": {
			func(e *Electorate) {
				e.Servers = []Server{{id(1), "h", true}, {id(2), "h", false}, {id(3), "h", false}, {id(4), "h", false}}
				e.Ready = not(3, 4)
			}, Step{},
		},
		"who is gone is replaced first": {
			func(e *Electorate) {
				e.Servers = append(three, Server{id(4), "h", false})
				e.Table.Members = slices.Delete(e.Table.Members, 2, 3)
			}, Step{StepPromote, Server{id(4), "h", true}},
		},
		"and then removed": {
			func(e *Electorate) {
				e.Servers = append(three, Server{id(4), "h", true})
				e.Table.Members = slices.Delete(e.Table.Members, 2, 3)
			}, Step{StepRemove, Server{id(3), "h", true}},
		},
		"not removed where that would leave no quorum": {
			func(e *Electorate) {
				e.Servers = slices.Clone(three)
				e.Table.Members = slices.Delete(e.Table.Members, 2, 4)
				e.Alive = not(2, 3)
			}, Step{},
		},
		"of two, one votes": {
			func(e *Electorate) { e.Servers, e.Table.Members = three[:2:2], e.Table.Members[:2] },
			Step{StepDemote, Server{id(2), "h", true}},
		},
		"the leader is gone itself": {
			func(e *Electorate) { e.Servers, e.Table.Members = slices.Clone(three), e.Table.Members[1:] },
			Step{Kind: StepTransfer, Server: Server{ID: id(1)}},
		},
		"a witness votes first": {
			func(e *Electorate) { e.Table.Members[3].Witness = true },
			Step{StepAdd, Server{id(4), "h", false}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := electorate(4)
			c.edit(&e)
			if got, _ := NextStep(e); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestNextStep_neverLosesQuorum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := electorate(rapid.IntRange(1, 9).Draw(t, "members"))
		e.Servers = nil
		dead := map[member.ID]bool{}
		for i := 1; i <= 11; i++ {
			if rapid.Bool().Draw(t, "server") || i == 1 {
				e.Servers = append(e.Servers, Server{id(i), "h", i == 1 || rapid.Bool().Draw(t, "votes")})
			}
			dead[id(i)] = i > 1 && rapid.IntRange(0, 3).Draw(t, "dead") == 0
		}
		for i := range e.Table.Members {
			if rapid.IntRange(0, 4).Draw(t, "leaving") == 0 {
				e.Table.Members[i].State = ring.Leaving
			}
		}
		e.Alive = func(x member.ID) bool { return !dead[x] }
		e.Ready = e.Alive
		play(t, e)
	})
}
