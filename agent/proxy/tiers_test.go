package proxy

import "testing"

// Backups get nothing while another instance is healthy, one on another
// machine included, although this machine's own, which is preferred, fails.
func TestTiers_backupsWaitBehindOtherMachines(t *testing.T) {
	t.Parallel()
	far, spare := startApp(t, "far", echo("far")), startApp(t, "spare", echo("spare"))
	near, other, last := deaf(t, "near"), instanceOf(far, "m2"), instanceOf(spare, "m3")
	near.Local, last.Backup = true, true
	for name, sticky := range map[string]bool{"with sessions": true, "without": false} {
		r := startRig(t, setup{
			cfg: routed(func(rt *Route) {
				rt.Local, rt.Balance = true, Random
				if !sticky {
					rt.Sticky = Sticky{}
				}
			}),
			apps: []Instance{near, other, last},
		})
		for range 10 {
			if got, _, _ := r.get(t, ""); got != "far" {
				t.Fatalf("%s: a client got %q", name, got)
			}
		}
	}
}

// A client whose session is beside nobody that can be used gets the same spare
// instance with each of its parallel requests.
func TestTiers_parallelRequestsOfASessionAgree(t *testing.T) {
	t.Parallel()
	a, b := startApp(t, "a", echo("a")), startApp(t, "b", echo("b"))
	near, one, two := deaf(t, "near"), instanceOf(a, "m2"), instanceOf(b, "m3")
	near.Local, one.Backup, two.Backup = true, true, true
	for range 8 {
		r := startRig(t, setup{apps: []Instance{near, one, two}})
		id, ok := r.sess.Mint("m0")
		if !ok {
			t.Fatal("no id")
		}
		first, _, _ := r.get(t, "RONDEL="+id)
		for range 5 {
			if got, _, _ := r.get(t, "RONDEL="+id); got != first {
				t.Fatalf("first %q, then %q", first, got)
			}
		}
	}
}
