package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A client is idle from the end of its last answer on, however long that took:
// else a long download's connection would end just when it could be used again.
func TestLoops_idleFromTheEndOfTheAnswer(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	r, _ := one(t, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if q.URL.Path != "/slow" {
				io.WriteString(nc, ok)
				continue
			}
			io.WriteString(nc, head200+"Content-Length: 2\r\n\r\no")
			<-goOn
			io.WriteString(nc, "k")
		}
	})
	nc, br := r.send(t, canary)
	read(t, br, "GET") // the instance's connection is there from now on
	io.WriteString(nc, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	if b, err := br.ReadByte(); err != nil {
		t.Fatalf("%q %v", b, err)
	}
	br.UnreadByte()
	eventually(t, "the answer is known to take long, here or in a goroutine", func() bool {
		slow := true
		r.loops.each(func(w *worker) {
			for _, l := range w.clients {
				slow = slow && l.slow
			}
		})
		return slow
	})
	end := time.Now()
	close(goOn)
	read(t, br, "GET")
	eventually(t, "the client waits in a loop", func() bool {
		waits := false
		r.loops.each(func(w *worker) {
			for _, l := range w.clients {
				if l.state == reading && l.c == nil {
					waits = true
					if l.since.Before(end) {
						t.Errorf("idle since %s before the end of its answer", end.Sub(l.since))
					}
				}
			}
		})
		return waits
	})
}
