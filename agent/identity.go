package agent

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rondel-project/rondel/agent/internal/wholefile"
	"github.com/rondel-project/rondel/agent/member"
)

// identity is who this agent is, as its data directory knows.
type identity struct {
	id   member.ID
	boot member.Boot
	dir  string // "": in memory
	lock *os.File
}

const (
	idFile      = "node-id"
	clusterFile = "cluster-id"
	lockFile    = "lock"
)

// openIdentity makes the data directory if needed, locks it against a second
// agent and reads the node id, which a new directory gets.
func openIdentity(dir string) (_ *identity, err error) {
	i := &identity{boot: member.NewBoot(), dir: dir}
	if dir == "" {
		i.id = member.NewID()
		return i, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	if i.lock, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	defer func() {
		if err != nil {
			i.close()
		}
	}()
	if err := unix.Flock(int(i.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("the data directory %s is in use by another agent: each needs one of its own (-data-dir)", dir)
		}
		return nil, fmt.Errorf("lock the data directory %s: %w", dir, err)
	}
	path := filepath.Join(dir, idFile)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(dir, "raft")); err == nil {
			return nil, fmt.Errorf("%s is missing, but there is Raft state of some member in %s: restore the file, or move the whole directory away to start as a new member", path, dir)
		}
		i.id = member.NewID()
		if err := wholefile.Write(path, []byte(i.id+"\n")); err != nil {
			return nil, fmt.Errorf("write the node id: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("read the node id: %w", err)
	default:
		if i.id, err = member.ParseID(strings.TrimSpace(string(b))); err != nil {
			return nil, fmt.Errorf("%s is damaged (%w): restore it, or move the whole data directory away to start as a new member", path, err)
		}
	}
	return i, nil
}

// cluster returns the cluster that this member was last part of; zero for none.
func (i *identity) cluster() (c [16]byte, err error) {
	if i.dir == "" {
		return c, nil
	}
	path := filepath.Join(i.dir, clusterFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read the cluster id: %w", err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(raw) != len(c) {
		return c, fmt.Errorf("%s is damaged: it should hold 32 hexadecimal digits; remove it if the cluster's other members are right about who belongs to it", path)
	}
	copy(c[:], raw)
	return c, nil
}

// setCluster remembers the cluster. What is known already is not written again:
// a disk that is full must not keep a member from coming back.
func (i *identity) setCluster(c [16]byte) error {
	if i.dir == "" {
		return nil
	}
	if known, err := i.cluster(); err == nil && known == c {
		return nil
	}
	return wholefile.Write(filepath.Join(i.dir, clusterFile), []byte(hex.EncodeToString(c[:])+"\n"))
}

// path returns the path of a file or folder in the data directory, "" where
// everything is in memory.
func (i *identity) path(name string) string {
	if i.dir == "" {
		return ""
	}
	return filepath.Join(i.dir, name)
}

// close gives the data directory free: in so many words, since a process that
// this one is about to start has the file open as well, until it runs its program.
func (i *identity) close() error {
	if i.lock == nil {
		return nil
	}
	return errors.Join(unix.Flock(int(i.lock.Fd()), unix.LOCK_UN), i.lock.Close())
}
