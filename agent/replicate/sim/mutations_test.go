package sim

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	mutate = flag.Int("mutate", 0, "how many seeds of its kind TestMutations gives each mutation to be noticed; 0: none is run")
	only   = flag.String("mutation", "", "only the mutations whose name has this in it")
)

// mutation is a rule broken in the source: the product has no switches for it.
// A build of the simulation reads the changed files in place of the real ones.
type mutation struct {
	name   string
	mode   string // of the runs in which it can be noticed, as TestSim's -mode
	masked string // why it is not noticed though the rule is needed; "": it must be
	edits  []edit
}

// edit replaces one text, which must be there once, in a file below agent/.
type edit struct{ file, old, new string }

var mutations = []mutation{
	{"ack without all in sync (W5)", "", "", []edit{{"replicate/commit.go",
		"if w.done || slices.ContainsFunc(w.need, func(x need) bool { return !x.acked }) {",
		"if w.done || len(w.need) > 0 && !slices.ContainsFunc(w.need, func(x need) bool { return x.acked }) {"}}},
	{"lease not looked at (R1, W1)", "", "", []edit{{"replicate/expiry.go",
		"return n.refuse && n.now.Mono >= n.lease.until", "return false"}}},
	{"lease from the time of receipt (N2)", "", "", []edit{{"replicate/lease.go",
		"until := g.Sent + int64", "until := n.now.Mono + int64"}}},
	{"down without waiting for the lease (L2d)", "", "", []edit{{"leader/leases.go",
		"return now > since+c.p.leaseOver()", "return now > since"}}},
	{"new leader does not wait (L2e)", "", "", []edit{{"leader/leases.go",
		"since := max(r.granted, c.elected)", "since := r.granted"}}},
	{"read of a pending write (R1)", "", "", []edit{{"replicate/serve.go",
		"r := n.read(h, e, o.req)\n	if r.Status",
		"if w := n.slots[h].writes[id]; w != nil && w.id == id && e != nil && !w.next.Dead {\n\t\tx := *e\n\t\tx.Rec = w.next\n\t\te = &x\n\t}\n\tr := n.read(h, e, o.req)\n\tif r.Status"}}},
	{"learner counts before it is filled (N9)", "", "", []edit{{"replicate/adding.go",
		"return a.listed && len(a.flight) == 0 && len(a.queue) == 0 && len(a.uses) == 0 && n.peer(a.who.Num).confirmed(a.usesIn)", "return a.listed"}}},
	{"writes do not wait for who is added (W3)", "", "", []edit{{"replicate/node.go",
		"if a := n.slots[h].add; a != nil && !slices.ContainsFunc(out, func(x need) bool { return x.who == a.who }) {", "if false {\n\t\ta := n.slots[h].add"}}},
	{"no opening round (N3)", "", "", []edit{{"replicate/activate.go",
		"if len(a.members) == 0 {\n\t\tn.opened(h)", "if true {\n\t\tn.opened(h)"}}},
	{"no second commit when a slot opens (N3)", "", "", []edit{{"replicate/activate.go",
		"	if same {\n", "	if same || n.refuse {\n"}}},
	{"replicas do not fence (W4)", "refuse", "the table travels before every acknowledgement and closes the old owner first", []edit{{"replicate/copy.go",
		"case m.Re < s.Re:", "case m.Re < s.Re && !n.refuse:"}, {"replicate/copy.go",
		"if n.refuse && !fromOwner {", "if n.refuse && !fromOwner && m.Re >= s.Re {"}}},
	{"boot is not compared (L6)", "", "", []edit{{"ring/draft.go",
		"return m != nil && m.Boot == h.Boot && m.State != Down", "return m != nil && m.State != Down"}}},
	{"operations are not remembered (W2)", "", "", []edit{{"session/apply.go",
		"if rec != nil && req.Op != (OpID{}) {", "if false {"}}},
	{"long absence forgets nothing (E2)", "hermit", "", []edit{{"replicate/node.go",
		"n.followDiscards(m.Discards, old)", ""}}},
	{"no bound on queued writes (W2)", "tight", "", []edit{{"replicate/write.go",
		"\n	if len(w.queue) >= n.p.MaxQueue {", "\n	if false {"}}},
	{"uses are not made good for at a takeover (E3)", "", "", []edit{{"replicate/activate.go",
		"n.store.Extend(e, min(e.Deadline+int64(slack), n.now.Mono+int64(ttl+useEvery(n.ttl))))", "_ = slack"}}},
	{"copies are not told of uses (E4)", "", "", []edit{{"replicate/serve.go",
		"n.awaitTold(h, e, o, r)", "false"}, {"replicate/told.go", "	n.tellRound()\n	n.answerTold()\n}\n\n// tellRound", "}\n\n// tellRound"}}},
	{"fast path whatever was between (N4)", "", "", []edit{{"replicate/node.go",
		"fast := mine && sl.active != 0 && sl.active == old.Re && s.PrevRe == old.Re && old.Owner == n.self.Num", "fast := mine && (sl.active != 0 || old.Re != 0)"}}},
	{"pending writes are not asked for anew (N4)", "", "", []edit{{"replicate/node.go",
		"			w.need = n.copies(h)\n", ""}}},
	{"replicas do not fence, and say so before their table does (W4)", "refuse", "", []edit{{"replicate/copy.go",
		"case m.Re < s.Re:", "case m.Re < s.Re && !n.refuse:"}, {"replicate/copy.go",
		"if n.refuse && !fromOwner {", "if n.refuse && !fromOwner && m.Re >= s.Re {"}, {"replicate/node.go",
		"if p.epoch < n.t.Epoch && (", "if _, ack := m.(*Ack); !ack && p.epoch < n.t.Epoch && ("}}},
	{"a learner goes on where its owner starts again (N9)", "refuse", "hundreds of runs do not meet it: a write must be on the learner alone when its owner misses a table; a test of agent/replicate does", []edit{{"replicate/node.go",
		"	n.endAdding(h)\n	n.endReturned(h)\n", "	n.reviseAdding(h)\n	n.endReturned(h)\n"}}},
	{"a learner counts before it has forgotten (N9)", "refuse", "hundreds of runs do not meet it: one message must get lost; a test of agent/replicate loses it", []edit{{"replicate/adding.go",
		"n.askLearner(m.Slot)\n		}\n		return\n	}", "n.askLearner(m.Slot)\n		}\n	}"}}},
	{"who dies together inherits from each other (L2)", "disk", "", []edit{{"ring/draft.go",
		"return d.Outlived == nil || ", "return true || "}}},
	{"copies acknowledge before it is on disk", "disk", "", []edit{{"replicate/journal.go",
		"case *Ack, *SealAck,", "case *SealAck,"}}},
	{"answers leave before it is on disk", "disk", "", []edit{{"replicate/call.go",
		"case o.exact:\n		after = o.after\n", "default:\n		after = 0\n"}}},
	{"reads wait for no disk", "disk", "", []edit{{"replicate/call.go",
		"case o.exact:\n", "case o.exact && o.req != nil && !o.req.Kind.Mutates():\n		after = 0\n	case o.exact:\n"}}},
	{"a disk that was lost counts as the one before (L3)", "disk", "", []edit{{"ring/members.go",
		"!same && m.Store != (Store{}) && m.Store == next.Store", "!same && m.Store != (Store{})"}}},
	{"changes are logged without their base", "disk", "", []edit{{"replicate/journal.go",
		"e != nil && h < n.journal.whole {", "e != nil {"}, {"replicate/journal.go",
		"if w.slot >= n.journal.whole {", "if false {"}}},
	{"what a write has logged is not taken back", "disk", "", []edit{{"replicate/journal.go",
		"if w.logged == 0 {\n		return\n	}\n	for _, id", "if true {\n		return\n	}\n	for _, id"}}},
	{"who came back with its disk is not sent what it lacks (W6)", "disk", "", []edit{{"replicate/repair.go",
		"ok && boot != l.who.Boot && !l.done", "false && ok && boot != l.who.Boot && !l.done"}}},
	{"unsettled marks are not logged (S6)", "serve+partitions, disk", "hundreds of runs do not meet it: who was cut off must end before it is heard again; a test of agent/replicate does", []edit{{"replicate/journal.go",
		"if unsettled {\n		flags |= putUnsettled\n	}", ""}, {"replicate/journal.go",
		"n.store.Settle(e, settled)\n	if n.journal.on {", "n.store.Settle(e, settled)\n	if false {"}}},
}

// apply writes the changed files and the list of them that go build reads.
func (m *mutation) apply(t *testing.T, dir string) string {
	t.Helper()
	agent, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range m.edits {
		path := filepath.Join(agent, e.file)
		if texts[path] == "" {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(b)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			t.Errorf("%s: %s has %d times %q", m.name, e.file, n, e.old)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(path, agent), string(filepath.Separator), "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = to
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return list
}

var failedSeed = regexp.MustCompile(`-seed=(\d+)\n`)

// TestMutations breaks one rule after the other and wants each to be noticed.
// Without -mutate it only sees to it that each still fits the source.
func TestMutations(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		if !strings.Contains(m.name, *only) {
			continue
		}
		dir := t.TempDir()
		list := m.apply(t, dir)
		if *mutate == 0 || t.Failed() {
			continue
		}
		bin := filepath.Join(dir, "sim.test")
		if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", list, "-o", bin, ".").CombinedOutput(); err != nil {
			t.Errorf("%s does not build: %s", m.name, out)
			continue
		}
		out, err := exec.CommandContext(t.Context(), bin, "-test.run=TestSim$", "-failures=1", "-mode="+m.mode, "-seeds="+strconv.Itoa(*mutate)).CombinedOutput()
		switch found := failedSeed.FindSubmatch(out); {
		case err != nil && found != nil:
			rule := regexp.MustCompile(`at [^:]*: ([^\n]{0,90})`).FindSubmatch(out)
			t.Logf("%s: seed %s: %s", m.name, found[1], rule[1])
		case m.masked != "":
			t.Logf("%s: not noticed within %d seeds: %s", m.name, *mutate, m.masked)
		default:
			t.Errorf("%s: not noticed within %d seeds: %v %.300s", m.name, *mutate, err, out)
		}
	}
}
