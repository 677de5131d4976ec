package httpapi

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rondel-project/rondel/agent/ring"
	"github.com/rondel-project/rondel/api"
)

func TestMoves_answers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.want(h.do("PUT", "/v1/agent/drain?enable=true", ""), 200, `{"Node":"m1","Draining":true,"Epoch":43}`)
	h.want(h.do("PUT", "/v1/ring/rebalance", ""), 200, `{"Moved":7,"Epoch":43,"Joining":[]}`)
	h.want(h.do("PUT", "/v1/ring/move?slots=5&from=m1&to=m2", ""), 200, `{"Moved":5,"Epoch":43,"Joining":[]}`)
	for err, status := range map[error]int{ErrConflict: 409, ErrNotFound: 404, ErrUnavailable: 503} {
		h.cluster.fail = fmt.Errorf("no: %w", err)
		for _, target := range []string{"/v1/agent/drain?enable=true", "/v1/ring/rebalance", "/v1/ring/move?slots=5&from=m1&to=m2"} {
			h.want(h.do("PUT", target, ""), status)
		}
	}
	if h.want(h.do("GET", "/v1/ring/rebalance", ""), 405).Header().Get("Allow") == "" {
		t.Error("no Allow")
	}
}

func TestMoves_ringTellsHowFar(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m2 := h.cluster.table.Member(2)
	info := func() (out api.RingInfo) {
		if err := json.Unmarshal(h.do("GET", "/v1/ring", "").Body.Bytes(), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	m2.Drain = true
	if r := info(); r.Moving != 512 || r.Members[0].State != "draining" || r.Members[0].Owned != 512 || r.Members[0].Copies != 512 {
		t.Errorf("a member that drains: %+v", r)
	}
	for i := range h.cluster.table.Slots {
		s := &h.cluster.table.Slots[i]
		s.Home, s.Owner, s.InSync = 1, 1, []ring.Holder{{Num: 1}}
	}
	if r := info(); r.Moving != 0 || r.Members[0].State != "drained" || r.Members[0].Sessions != 0 {
		t.Errorf("a member that has drained: %+v", r)
	}
	m2.State = ring.Down
	if r := info(); r.Members[0].State != "down" || !r.Members[0].Draining {
		t.Errorf("a drained member that is down: %+v", r)
	}
}
