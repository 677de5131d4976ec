package leader

import (
	"context"
	"errors"
)

var (
	// ErrBusy means that too much waits to be worked on; nothing was done.
	ErrBusy = errors.New("the leader has too much to do")
	// ErrTermOver means that leadership was lost before it was certain whether a
	// wish is in the table.
	ErrTermOver = errors.New("leadership was lost meanwhile; it may be done or not")
)

// Ask takes an operator's wish, a DrainAsked, RebalanceAsked, MoveAsked or
// StayAsked, and
// returns when it is committed or refused. That the table has it does not mean
// that sessions have moved: the table shows that too.
func (l *Leader) Ask(ctx context.Context, wish Event) (Answer, error) {
	op, answer, err := l.ask(wish)
	if err != nil {
		return Answer{}, err
	}
	select {
	case a, ok := <-answer:
		if !ok {
			return Answer{}, ErrTermOver
		}
		return a, a.Err
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.asked, op)
		l.mu.Unlock()
		return Answer{}, ctx.Err()
	}
}

func (l *Leader) ask(wish Event) (op uint64, answer chan Answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inbox == nil {
		return 0, nil, ErrNotLeader
	}
	l.op++
	switch w := wish.(type) {
	case DrainAsked:
		w.Op = l.op
		wish = w
	case RebalanceAsked:
		w.Op = l.op
		wish = w
	case MoveAsked:
		w.Op = l.op
		wish = w
	case StayAsked:
		w.Op = l.op
		wish = w
	}
	select {
	case l.inbox <- wish:
	default:
		return 0, nil, ErrBusy
	}
	if l.asked == nil {
		l.asked = make(map[uint64]chan Answer)
	}
	answer = make(chan Answer, 1)
	l.asked[l.op] = answer
	return l.op, answer, nil
}

// answer tells whoever asked, if that one still waits.
func (l *Leader) answer(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.asked[a.Op]; c != nil {
		c <- a
		delete(l.asked, a.Op)
	}
}
