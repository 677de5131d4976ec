package leader

import (
	"errors"
	"fmt"

	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
)

// ErrRefused means that the state of the cluster forbids what an operator asked.
var ErrRefused = errors.New("refused")

// refusal is an ErrRefused in words of its own.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == ErrRefused }

func refused(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// wishes plans what operators asked for, and returns what to answer when that
// is committed. All of a wish is in one entry: a leader that comes later goes on
// from the table, and has nothing to remember.
func (c *Core) wishes(d *ring.Draft) (answers []Answer) {
	done := func(op uint64, moved int, err error) {
		if op != 0 {
			answers = append(answers, Answer{Op: op, Moved: moved, Err: err})
		}
	}
	for _, a := range c.asked.drains {
		err := mayDrain(d.Table(), a)
		if err == nil {
			err = d.Drain(a.Num, a.On)
		}
		done(a.Op, 0, err)
	}
	for _, a := range c.asked.stays {
		if c.current(a.From) != nil {
			d.Stay(a.From.Num)
		}
		done(a.Op, 0, nil)
	}
	for range c.asked.evens {
		c.even = false
	}
	for i, a := range c.asked.evens {
		moved := 0
		if i == 0 {
			moved = d.Rebalance(&c.seen)
		}
		done(a.Op, moved, nil)
	}
	for _, a := range c.asked.moves {
		err := mayMove(d.Table(), a)
		moved := 0
		if err == nil {
			moved = d.MoveHomes(a.Slots, a.From, a.To, &c.seen)
		}
		done(a.Op, moved, err)
	}
	return answers
}

// answer says what is committed now.
func (c *Core) answer(list []Answer) {
	for _, a := range list {
		a.Epoch = c.table.Epoch
		c.do(a)
	}
}

// mayDrain refuses a drain after which sessions would have no place.
func mayDrain(t *ring.Table, a DrainAsked) error {
	m := t.Member(a.Num)
	switch {
	case m == nil:
		return fmt.Errorf("member %d: %w", a.Num, ring.ErrUnknownMember)
	case !a.On || m.Drain:
		return nil
	case m.Witness:
		return refused("%s is a witness and holds no sessions", m.Name)
	}
	left, need := takers(t, a.Num), 1
	if t.Settings.Refuse {
		need = max(1, int(t.Settings.MinCopies))
	}
	switch {
	case left == 0:
		return refused("no other member is up to take the sessions of %s; add one, or end another drain first", m.Name)
	case left < need:
		return refused("beside %s only %d member is up to hold sessions, and on_partition = \"refuse\" writes to %d at least; add one, or end another drain first", m.Name, left, need)
	}
	return nil
}

// takers counts the members beside one that new sessions go to.
func takers(t *ring.Table, but member.Number) (n int) {
	for i := range t.Members {
		if m := &t.Members[i]; m.Num != but && m.State == ring.Up && !m.Witness && !m.Drain {
			n++
		}
	}
	return n
}

// mayMove refuses a move to a member that would have to give the slots away
// again.
func mayMove(t *ring.Table, a MoveAsked) error {
	from, to := t.Member(a.From), t.Member(a.To)
	switch {
	case from == nil || to == nil:
		return fmt.Errorf("move from %d to %d: %w", a.From, a.To, ring.ErrUnknownMember)
	case from == to:
		return refused("%s has its own slots already", to.Name)
	case to.Witness:
		return refused("%s is a witness and holds no sessions", to.Name)
	case to.Drain:
		return refused("%s drains and takes no slots; `rondel drain -disable -node=%s` ends that", to.Name, to.Name)
	case to.State != ring.Up:
		return refused("%s is %s; slots go to members that are up", to.Name, to.State)
	case from.Drain || from.State == ring.Leaving:
		return refused("%s is handing over all its slots already", from.Name)
	}
	return nil
}
