package netloop

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"
)

// A handler whose write had to wait is called when there is room.
func TestLoop_tellsWhenWritable(t *testing.T) {
	t.Parallel()
	l := run(t, Options{})
	fd, other := pair(t)
	defer Close(fd)
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	room := make(chan bool, 100)
	at, err := l.Add(fd, handler(func(bool) { room <- true }))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Remove(at)
	sent, err := Write(fd, large)
	if !errors.Is(err, ErrAgain) {
		t.Fatalf("%d bytes went, %v", sent, err)
	}
	l.Writable(at)
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, len(large))
		n, _ := io.ReadFull(other, b) // what is missing shows below
		got <- b[:n]
	}()
	for sent < len(large) {
		get(t, room, "room")
		n, err := Write(fd, large[sent:])
		if err != nil && !errors.Is(err, ErrAgain) {
			t.Fatal(err)
		}
		sent += n
	}
	if b := get(t, got, "all of it"); !bytes.Equal(b, large) {
		t.Errorf("%d bytes arrived, want %d", len(b), len(large))
	}
	// There is room at once where nothing has to wait.
	second, _ := pair(t)
	defer Close(second)
	at2, err := l.Add(second, handler(func(bool) { room <- true }))
	if err != nil {
		t.Fatal(err)
	}
	for len(room) > 0 {
		<-room
	}
	l.Writable(at2)
	get(t, room, "room")
	l.Remove(at2)
	l.Writable(at2) // too late, and no harm
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	fd, other := pair(t)
	defer Close(fd)
	if !Quiet(fd) {
		t.Error("a connection with nothing to read is not quiet")
	}
	other.Write([]byte("x"))
	for end := time.Now().Add(time.Minute); Quiet(fd); {
		if time.Now().After(end) {
			t.Fatal("a connection with something to read is quiet")
		}
	}
	var one [1]byte
	if n, err := Read(fd, one[:]); n != 1 || err != nil || one[0] != 'x' {
		t.Errorf("it took the byte away: %d, %v", n, err)
	}
	other.Close()
	for end := time.Now().Add(time.Minute); Quiet(fd); {
		if time.Now().After(end) {
			t.Fatal("a closed connection is quiet")
		}
	}
}

func TestPool_hasAsManyLoopsAsItIsTold(t *testing.T) {
	t.Parallel()
	p := NewPool(Options{Loops: 3})
	seen := map[*Loop]bool{}
	for range 9 {
		l, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		seen[l] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d loops, want 3", len(seen))
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// One side's end is told to the other, which may go on.
func TestCloseWrite(t *testing.T) {
	t.Parallel()
	fd, other := pair(t)
	defer Close(fd)
	if n, err := Write(fd, []byte("last words")); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	if err := CloseWrite(fd); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(other); string(b) != "last words" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	other.Write([]byte("x"))
	var one [1]byte
	eventuallyRead(t, fd, one[:])
	if one[0] != 'x' {
		t.Errorf("%q came back", one)
	}
	if _, err := Write(fd, []byte("more")); err == nil {
		t.Error("it could write on")
	}
}

func eventuallyRead(t *testing.T, fd int, p []byte) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if _, err := Read(fd, p); !errors.Is(err, ErrAgain) {
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Fatal("nothing came")
}
