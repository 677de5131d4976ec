package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rondel-project/rondel/agent/httpapi"
	"github.com/rondel-project/rondel/agent/leader"
	"github.com/rondel-project/rondel/agent/member"
	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/agent/wire"
	"github.com/rondel-project/rondel/api"
)

const (
	wishWait  = 10 * time.Second // for a leader to take an operator's wish
	wishTry   = 3 * time.Second  // for one that is known to answer
	tableWait = 2 * time.Second  // until this agent has the table in which it is done
)

// wish is what an operator asks of the leader, as it travels between agents.
type wish struct {
	Kind     string // drain, rebalance, move or stay
	Num, To  member.Number
	Boot     member.Boot
	On       bool
	Slots    int
	repeated bool // asking again changes nothing more
}

// granted is the leader's answer to a wish.
type granted struct {
	Moved int
	Epoch ring.Epoch
}

// The codes of a wish that was not granted.
const (
	codeNotLeader = "not_leader"
	codeUnknown   = "unknown_member"
	codeRefused   = "refused"
	codeBusy      = "busy"
	codeOutcome   = "outcome_unknown"
)

func (w wish) event() (leader.Event, error) {
	switch w.Kind {
	case "drain":
		return leader.DrainAsked{Num: w.Num, On: w.On}, nil
	case "rebalance":
		return leader.RebalanceAsked{}, nil
	case "move":
		return leader.MoveAsked{Slots: w.Slots, From: w.Num, To: w.To}, nil
	case "stay":
		return leader.StayAsked{From: ring.Holder{Num: w.Num, Boot: w.Boot}}, nil
	}
	return nil, &wire.CodedError{Code: "malformed", Message: "not a wish that this agent knows"}
}

// grant has this agent's own leader do what is wished. Its errors cross to
// other agents.
func grant(ctx context.Context, l *leader.Leader, w wish) (granted, error) {
	ev, err := w.event()
	if err != nil {
		return granted{}, err
	}
	a, err := l.Ask(ctx, ev)
	code := codeOutcome
	switch {
	case err == nil:
		return granted{a.Moved, a.Epoch}, nil
	case errors.Is(err, leader.ErrNotLeader):
		code = codeNotLeader
	case errors.Is(err, leader.ErrBusy):
		code = codeBusy
	case errors.Is(err, leader.ErrRefused):
		code = codeRefused
	case errors.Is(err, ring.ErrUnknownMember):
		code = codeUnknown
	}
	return granted{}, &wire.CodedError{Code: code, Message: err.Error()}
}

func handleWishes(t *wire.Transport, l *leader.Leader) {
	t.HandleCall(callWish, func(ctx context.Context, _ wire.Hello, body []byte) ([]byte, error) {
		var w wish
		if err := json.Unmarshal(body, &w); err != nil {
			return nil, &wire.CodedError{Code: "malformed", Message: "not a wish"}
		}
		g, err := grant(ctx, l, w)
		if err != nil {
			return nil, err
		}
		return json.Marshal(g)
	})
}

// wish brings an operator's wish to the leader, whoever that is, until one has
// taken it, and waits until this agent's own table shows it. What a change of
// leaders may have cut off is asked again, where asking twice does no harm.
func (a *Agent) wish(ctx context.Context, w wish) (g granted, err error) {
	ctx, cancel := context.WithTimeout(ctx, wishWait)
	defer cancel()
	t := time.NewTicker(askAgain)
	defer t.Stop()
	for {
		g, err = a.askLeader(ctx, w)
		var coded *wire.CodedError
		switch {
		case err == nil:
			a.awaitEpoch(ctx, g.Epoch)
			return g, nil
		case errors.Is(err, wire.ErrUnreachable):
		case !errors.As(err, &coded):
			coded = &wire.CodedError{Code: codeOutcome}
			fallthrough
		default:
			switch {
			case coded.Code == codeRefused:
				return g, as(httpapi.ErrConflict, errors.New(coded.Message))
			case coded.Code == codeUnknown:
				return g, as(httpapi.ErrNotFound, errors.New(coded.Message))
			case coded.Code == codeNotLeader, coded.Code == codeBusy, coded.Code == codeOutcome && w.repeated:
			case coded.Code == codeOutcome:
				return g, &api.Error{StatusCode: http.StatusGatewayTimeout, Code: api.CodeOutcomeUnknown, Message: "the leader has changed meanwhile, and it is not known whether this was done; `rondel ring` shows it"}
			default:
				return g, fmt.Errorf("ask the leader: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return g, &api.Error{StatusCode: http.StatusServiceUnavailable, Code: api.CodeNoLeader, Message: "no leader has taken this up; the ring can change once a majority of voters is there"}
		case <-t.C:
		}
	}
}

func (a *Agent) askLeader(ctx context.Context, w wish) (g granted, err error) {
	id := a.control.leaderID()
	if id == "" {
		return g, wire.ErrUnreachable
	}
	ctx, cancel := context.WithTimeout(ctx, wishTry)
	defer cancel()
	if id == a.id.id {
		return grant(ctx, a.leader, w)
	}
	p, ok := a.roster.peer(id)
	if !ok {
		return g, wire.ErrUnreachable
	}
	body, err := json.Marshal(w)
	if err != nil {
		return g, err
	}
	b, err := a.transport.Call(ctx, p.Addr, callWish, body)
	if err != nil {
		return g, err
	}
	return g, json.Unmarshal(b, &g)
}

// awaitEpoch waits a little until this agent goes by a table at least as new.
func (a *Agent) awaitEpoch(ctx context.Context, epoch ring.Epoch) {
	ctx, cancel := context.WithTimeout(ctx, tableWait)
	defer cancel()
	for {
		index, changed := ringBackend{a}.Watch()
		if ring.Epoch(index) >= epoch {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

type movesBackend struct{ a *Agent }

func (b movesBackend) member(name string) (*ring.Member, error) {
	t := b.a.engine.View().Table
	if t.Epoch == 0 {
		return nil, &api.Error{StatusCode: http.StatusServiceUnavailable, Code: api.CodeNoLeader, Message: "this agent has no table yet: the cluster has no leader, or it has not been reached"}
	}
	if m := t.ByName(name); m != nil {
		return m, nil
	}
	return nil, as(httpapi.ErrNotFound, fmt.Errorf("no member %s is in the ring; `rondel ring` lists those that are", name))
}

// Drain implements httpapi.Moves.
func (b movesBackend) Drain(ctx context.Context, name string, on bool) (out api.DrainResult, err error) {
	if name == "" {
		name = b.a.cfg.Load().Node.Name
	}
	m, err := b.member(name)
	if err != nil {
		return out, err
	}
	g, err := b.a.wish(ctx, wish{Kind: "drain", Num: m.Num, On: on, repeated: true})
	if err != nil {
		return out, err
	}
	b.a.log.Info("drain asked for", "member", name, "enable", on)
	return api.DrainResult{Node: name, Draining: on, Epoch: uint64(g.Epoch)}, nil
}

// Rebalance implements httpapi.Moves.
func (b movesBackend) Rebalance(ctx context.Context) (out api.MoveResult, err error) {
	g, err := b.a.wish(ctx, wish{Kind: "rebalance", repeated: true})
	if err != nil {
		return out, err
	}
	out = api.MoveResult{Moved: g.Moved, Epoch: uint64(g.Epoch)}
	t := b.a.engine.View().Table
	for _, num := range t.Order {
		if m := t.Member(num); m.State == ring.Joining && !m.Witness {
			out.Joining = append(out.Joining, m.Name)
		}
	}
	b.a.log.Info("homes evened by an operator", "slots", g.Moved)
	return out, nil
}

// Move implements httpapi.Moves.
func (b movesBackend) Move(ctx context.Context, slots int, from, to string) (out api.MoveResult, err error) {
	f, err := b.member(from)
	if err != nil {
		return out, err
	}
	t, err := b.member(to)
	if err != nil {
		return out, err
	}
	g, err := b.a.wish(ctx, wish{Kind: "move", Num: f.Num, To: t.Num, Slots: slots})
	if err != nil {
		return out, err
	}
	b.a.log.Info("slots moved by an operator", "slots", g.Moved, "from", from, "to", to)
	return api.MoveResult{Moved: g.Moved, Epoch: uint64(g.Epoch)}, nil
}
