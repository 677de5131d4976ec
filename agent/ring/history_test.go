package ring

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rondel-project/rondel/agent/member"
)

func TestDraft_anyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		runHistory(rt, rapid.IntRange(1, 6).Draw(rt, "members"))
	})
}

// tb lets helpers that want a testing.TB fail a rapid check.
type tb struct {
	testing.TB
	rt *rapid.T
}

func (t tb) Helper()                   {}
func (t tb) Fatal(args ...any)         { t.rt.Fatal(args...) }
func (t tb) Fatalf(f string, a ...any) { t.rt.Fatalf(f, a...) }

func runHistory(rt *rapid.T, n int) {
	w := newWorld(tb{rt: rt}, n, Settings{Replicas: uint8(rapid.IntRange(0, 2).Draw(rt, "replicas")), MinCopies: 1})
	w.checkRest()
	drained := make(map[int]bool)
	for range rapid.IntRange(1, 8).Draw(rt, "steps") {
		i := rapid.IntRange(1, 8).Draw(rt, "who")
		num := w.num(i)
		d := NewDraft(w.table)
		switch rapid.SampledFrom([]string{"join", "down", "restart", "stop", "leave", "remove", "drain", "slow", "work", "reset", "new disk"}).Draw(rt, "what") {
		case "join":
			c := candidacy(i)
			if m := w.table.ByID(c.ID); m != nil {
				c.Boot = m.Boot
			}
			if w.table.ByName(c.Name) == nil || num != 0 {
				if err := d.Join(c); err != nil {
					rt.Fatal(err)
				}
			}
		case "restart":
			c := candidacy(i)
			w.boots[i]++
			c.Boot[1] = w.boots[i]
			if w.table.ByName(c.Name) == nil || num != 0 {
				if err := d.Join(c); err != nil {
					rt.Fatal(err)
				}
			}
		case "new disk":
			if m := w.table.ByName(candidacy(i).Name); m != nil {
				c := candidacy(i)
				w.boots[i]++
				var id [16]byte
				id[14], id[15] = w.boots[i], byte(i)
				c.ID, c.Boot[1] = member.IDFromBytes(id), w.boots[i]
				if err := d.Join(c); err != nil {
					rt.Fatal(err)
				}
			}
		case "down":
			d.Down(num)
		case "stop":
			d.Stop(num)
		case "leave":
			d.Leave(num)
		case "remove":
			d.Remove(num)
		case "drain":
			drained[i] = !drained[i]
			_ = d.Drain(num, drained[i])
		case "slow":
			d.DropSlow(num, w.num(1+i%8))
		case "reset":
			for h := range Slot(Slots) {
				d.Reset(h)
			}
		case "work":
			w.work()
			w.checkRest()
			continue
		}
		d.Learners(nil)
		w.apply(d)
	}
	w.work()
	w.checkRest()
}
