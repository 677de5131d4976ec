package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rondel-project/rondel/agent/internal/wholefile"
)

// Report says what Load has found.
type Report struct {
	ID      ID // zero: what is there may be less than was promised
	Entries int
	Damage  *Damage // where the log is not what was written; nothing after that was loaded
	Kept    string  // where a damaged log is now; "": where it was
	Why     string  // why it is not whole, where nothing is damaged; "" for a new store too
}

// Load hands out what the store holds, in the order in which it was logged, with
// the time that has passed since. f must refuse what it cannot read. Damage is
// part of the report: what precedes it is good.
func (s *Store) Load(f func(records []byte, elapsed time.Duration) error) (Report, error) {
	var r Report
	s.loaded = true
	name, _, err := s.current()
	if err != nil {
		r.Damage = &Damage{s.path(currentFile), 0, err}
		return r, nil
	}
	if err := s.tidy(name); err != nil {
		return r, fmt.Errorf("remove unfinished logs: %w", err)
	}
	if name == "" {
		return r, nil
	}
	j, err := openJournal(s.path(name), s.o, s.log)
	if err == nil {
		now := time.Now()
		err = j.load(func(records []byte, at time.Time) error {
			r.Entries++
			return f(records, now.Sub(at))
		})
		if err != nil {
			r.Entries--
			if closing := j.close(); closing != nil {
				s.log.Warn("close a damaged log", "error", closing)
			}
		}
	}
	if err != nil {
		if !errors.As(err, &r.Damage) {
			r.Damage = &Damage{s.path(name), 0, err}
		}
		if err := s.setAside(name); err != nil {
			return r, err
		}
		r.Kept = s.path(damagedName)
		return r, nil
	}
	s.wal = j
	l, id, err := s.readLabel()
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.Why = "the disk failed or was full when it was last written"
	case err != nil:
		r.Damage = &Damage{s.path(labelFile), 0, err}
	case !l.holds(s.o.Kernel):
		r.Why = fmt.Sprintf("the machine was restarted, and fsync was %q", l.Sync)
	default:
		r.ID, s.id = id, id
		s.accept(true) // what is logged from here on follows what was loaded
	}
	return r, nil
}

// setAside keeps a damaged log for whoever wants to look at it. Only the last
// one is kept.
func (s *Store) setAside(name string) error {
	if err := s.dropLabel(); err != nil {
		return err
	}
	if err := os.RemoveAll(s.path(damagedName)); err != nil {
		return fmt.Errorf("remove an earlier damaged log: %w", err)
	}
	if err := os.Rename(s.path(name), s.path(damagedName)); err != nil {
		return fmt.Errorf("set a damaged log aside: %w", err)
	}
	return s.o.Remove(s.path(currentFile))
}

// Run writes what is appended until ctx ends, and then all that is left. It can
// be called once, after Load.
func (s *Store) Run(ctx context.Context, k Keeper) error {
	if !s.loaded {
		return errors.New("a store runs after it was loaded")
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() { s.watch(watching, k) })
	defer watch.Wait()
	defer stop()
	return s.write(ctx, k)
}

// write is all that touches the disk from here on, and so may not return as long
// as a call to it does not.
func (s *Store) write(ctx context.Context, k Keeper) error {
	again := time.NewTicker(s.o.Retry)
	defer again.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	if s.id != (ID{}) {
		err := s.writeLabel(s.id, false)
		if err == nil {
			err = s.tellWhole(k)
		}
		if err != nil {
			s.fail(k, err)
		}
	} else {
		s.rebuild(k)
	}
	for {
		if s.dump.on {
			select {
			case <-ctx.Done():
				return s.end(k)
			case <-second.C: // a dump may take long
				s.everySecond(k)
			default:
				s.step(k)
			}
			continue
		}
		select {
		case <-ctx.Done():
			return s.end(k)
		case <-s.wake:
			s.commit(k)
			s.clean(k)
		case <-again.C:
			if s.wal == nil {
				s.rebuild(k)
			}
		case <-second.C:
			s.everySecond(k)
		}
	}
}

// everySecond keeps the promise of EverySec.
func (s *Store) everySecond(k Keeper) {
	if s.o.Sync != EverySec {
		return
	}
	s.commit(k) // a dump may have left changes waiting
	if s.wal == nil {
		return
	}
	if err := s.turn(s.wal.sync); err != nil {
		s.fail(k, err)
	}
}

// commit writes what has been appended, in one write and one sync however many
// changes it was: while one is under way, the next gathers.
func (s *Store) commit(k Keeper) {
	chunks, upto, err := s.take()
	if s.wal == nil || err == nil && len(chunks) == 0 {
		return
	}
	if err == nil {
		err = s.turn(func() error { return s.wal.write(chunks, time.Now()) })
	}
	if err == nil {
		err = s.set(func(st *State) { st.Bytes = s.wal.size })
	}
	if err != nil {
		s.fail(k, err)
		return
	}
	if s.dump.rebuild { // it does not count yet
		s.dump.upto = upto
		return
	}
	k.Synced(upto)
}

// clean begins to write the log anew where most of it is of the past.
func (s *Store) clean(k Keeper) {
	if s.wal == nil || s.dump.on || s.wal.size < s.o.CleanAt || s.wal.size < 2*s.wal.live {
		return
	}
	k.BeginDump()
	s.commit(k) // what was logged before
	if s.wal == nil {
		return
	}
	s.wal.since = 0
	s.dump = dump{on: true, from: s.wal.next}
}

// rebuild begins a new log and has everything written to it.
func (s *Store) rebuild(k Keeper) {
	name := s.following()
	k.BeginDump()
	j, err := openJournal(s.path(name), s.o, s.log)
	if err != nil {
		s.fail(k, errors.Join(err, os.RemoveAll(s.path(name))))
		return
	}
	if s.wal != nil { // not whole, and read already
		if err := s.wal.close(); err != nil {
			s.log.Warn("close the log of an earlier run", "error", err)
		}
	}
	s.wal = j
	s.accept(true)
	s.dump = dump{on: true, rebuild: true, from: j.next}
}

// step has one more slot written, or ends the dump.
func (s *Store) step(k Keeper) {
	if s.dump.next < s.o.Slots {
		k.Dump(s.dump.next)
		s.dump.next++
		if s.dump.next%16 == 0 || s.dump.next == s.o.Slots || s.waiting() > maxEntry {
			s.commit(k)
		}
		return
	}
	d := s.dump
	s.dump = dump{}
	err := s.turn(s.wal.sync)
	if err == nil && d.rebuild {
		err = s.begin()
	}
	if err == nil && d.rebuild {
		k.Synced(d.upto)
		err = s.tellWhole(k)
	}
	if err == nil && !d.rebuild {
		err = s.wal.cut(d.from)
	}
	if err == nil {
		err = s.set(func(st *State) { st.Bytes = s.wal.size })
	}
	if err != nil {
		s.fail(k, err)
		return
	}
	s.wal.live = s.wal.size
	if d.rebuild {
		s.log.Info("sessions are on disk", "bytes", s.wal.size)
	}
}

// tellWhole tells that the log holds everything, unless it was given up.
func (s *Store) tellWhole(k Keeper) error {
	s.telling.Lock()
	defer s.telling.Unlock()
	if err := s.failure(); err != nil {
		return err
	}
	s.told = false
	k.SetStore(s.id, false)
	return s.set(func(st *State) { *st = State{Whole: true, ID: s.id, Bytes: s.wal.size, Since: st.Since} })
}

// begin makes the new log the one that counts, under an id of its own.
func (s *Store) begin() error {
	name := filepath.Base(s.wal.dir)
	if err := s.wal.settle(); err != nil {
		return err
	}
	if err := s.dropLabel(); err != nil {
		return err
	}
	if err := wholefile.Write(s.path(currentFile), []byte(name+"\n"+s.o.Member+"\n")); err != nil {
		return fmt.Errorf("name the log of sessions: %w", err)
	}
	s.id = newID()
	if err := s.writeLabel(s.id, false); err != nil {
		return fmt.Errorf("write the store's id: %w", err)
	}
	if err := s.tidy(name); err != nil {
		s.log.Warn("remove an old log of sessions", "error", err)
	}
	return nil
}

// fail steps aside: sessions go on from memory, and what is on the disk is not
// taken for whole any more.
func (s *Store) fail(k Keeper, cause error) {
	s.mu.Lock()
	s.giveUp(cause)
	s.mu.Unlock()
	s.tellFailure(k) // the disk may not answer to what follows
	s.dump = dump{}
	if s.wal != nil {
		if err := s.wal.close(); err != nil {
			s.log.Warn("close the log of sessions", "error", err)
		}
		s.wal = nil
	}
	if name, _, err := s.current(); err == nil {
		if err := s.tidy(name); err != nil { // an unfinished log takes the room that is missing
			s.log.Warn("remove an unfinished log of sessions", "error", err)
		}
	}
	s.id = ID{}
	doubt := s.dropLabel()
	if doubt != nil {
		s.log.Error("what is on disk of sessions may be taken for complete", "error", doubt, "retry", s.o.Retry)
	}
	s.mu.Lock()
	s.state.Reason = cause.Error()
	s.mu.Unlock()
	s.telling.Lock()
	defer s.telling.Unlock()
	k.SetStore(ID{}, doubt != nil)
}

// end writes what is left, so that the next run finds everything.
func (s *Store) end(k Keeper) error {
	if s.wal == nil {
		return nil
	}
	s.commit(k)
	if s.wal == nil { // that failed, and was told
		return nil
	}
	s.accept(false)
	err := s.turn(s.wal.sync)
	if err == nil && s.id != (ID{}) && !s.dump.rebuild {
		err = s.writeLabel(s.id, true)
	}
	return errors.Join(err, s.wal.close())
}
