package agent

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestIdentity_staysTheSame(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	first, err := openIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openIdentity(dir); err == nil {
		t.Error("two agents open one data directory")
	}
	inherited, err := unix.Dup(int(first.lock.Fd())) // as a process has it that is about to be started
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	cluster := [16]byte{1, 2, 3}
	if err := first.setCluster(cluster); err != nil {
		t.Fatal(err)
	}
	remembered := func() os.FileInfo {
		info, err := os.Stat(filepath.Join(dir, clusterFile))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	before := remembered()
	if err := first.setCluster(cluster); err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, remembered()) {
		t.Error("what is known already is written again, for which a full disk has no room")
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer second.close()
	if second.id != first.id {
		t.Errorf("the id was %s and is %s", first.id, second.id)
	}
	if second.boot == first.boot {
		t.Error("two runs have one boot id")
	}
	if c, err := second.cluster(); err != nil || c != cluster {
		t.Errorf("the cluster is %x, %v", c, err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data directory's mode is %v, %v: others may look into it", info.Mode(), err)
	}
}

func TestIdentity_inMemory(t *testing.T) {
	t.Parallel()
	a, err := openIdentity("")
	if err != nil {
		t.Fatal(err)
	}
	b, err := openIdentity("")
	if err != nil {
		t.Fatal(err)
	}
	if a.id == b.id || a.id == "" {
		t.Errorf("two agents in memory have the ids %q and %q", a.id, b.id)
	}
	if err := a.setCluster([16]byte{1}); err != nil {
		t.Error(err)
	}
	if c, err := a.cluster(); err != nil || c != ([16]byte{}) {
		t.Errorf("the cluster is %x, %v", c, err)
	}
	if p := a.path("raft"); p != "" {
		t.Errorf("a path in memory: %q", p)
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
}

func TestIdentity_unusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openIdentity(file); err == nil {
		t.Error("a file is taken for a data directory")
	}
}

func TestForget_onlyWhoHasLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	id, err := openIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer id.close()
	a := &Agent{id: id, life: &life{}}
	if err := a.forget(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(id.path(idFile)); err != nil {
		t.Errorf("an agent that only stops has lost its id: %v", err)
	}
	a.gone.Store(true)
	if err := a.forget(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(id.path(idFile)); !os.IsNotExist(err) {
		t.Errorf("the id of who has left is still there: %v", err)
	}
}
