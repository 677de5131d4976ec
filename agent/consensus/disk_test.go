package consensus

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/rondel-project/rondel/agent/member"
)

func TestOpen_brokenDirectory(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(t *testing.T, dir string){
		"flipped bits": func(t *testing.T, dir string) {
			edit(t, segment(t, dir), func(b []byte) {
				for i := 300; i < 332; i++ { // more than the padding between two entries
					b[i] ^= 0xff
				}
			})
		},
		"wiped segment": func(t *testing.T, dir string) { edit(t, segment(t, dir), func(b []byte) { clear(b) }) },
		"cut segment":   func(t *testing.T, dir string) { must(t, os.Truncate(segment(t, dir), 400)) },
		"meta gone":     func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "log", "wal-meta.db"))) },
		"meta scrambled": func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "log", "wal-meta.db"), func(b []byte) {
				for i := range b {
					b[i] = byte(i * 7)
				}
			})
		},
		"a file instead": func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)); must(t, os.WriteFile(dir, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "raft")
			f := newFleet(t)
			s := f.start(0, "a", dir)
			f.bootstrap(1)
			l := f.leader()
			for n := range 20 {
				l.change(t, member.Number(n+1))
			}
			if err := s.raft.Load().Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
			f.stopAll()
			breakIt(t, dir)
			_, trans := raft.NewInmemTransport("b")
			n, err := Open(Config{ID: idOf(0), Dir: dir, Transport: trans})
			if err == nil {
				n.Close()
				t.Fatal("opened")
			}
			t.Log(err)
		})
	}
}

func TestOpen_tornTail(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "raft")
	f := newFleet(t)
	f.start(0, "a", dir)
	f.bootstrap(1)
	table := f.leader().change(t, 4)
	f.stopAll()
	edit(t, segment(t, dir), func(b []byte) {
		end := len(b)
		for end > 0 && b[end-1] == 0 {
			end--
		}
		copy(b[end:], []byte{0, 0, 0, 0, 1, 0, 0, 0, 50, 0, 0, 0, 9, 9}) // the beginning of an entry that was never finished
	})
	f = newFleet(t)
	defer f.stopAll()
	f.start(0, "a", dir)
	f.leader()
	f.await(table.Epoch)
}

func segment(t *testing.T, dir string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "log", "*.wal"))
	if err != nil || len(list) == 0 {
		t.Fatalf("segments %v: %v", list, err)
	}
	return list[0]
}

func edit(t *testing.T, file string, change func([]byte)) {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	change(b)
	must(t, os.WriteFile(file, b, 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
