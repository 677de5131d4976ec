package command

import (
	"bytes"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rondel-project/rondel/command/term"
)

// agentVerbs is a working command line for every verb that talks to an agent.
func agentVerbs() []string {
	return []string{
		"members", "join a", "leave", "force-leave a", "ring", "ring locate a", "services list", "services deregister a", "services maint -enable -id=a",
		"services drain -enable -id=a", "session create", "session get a", "session put a b=1", "session delete a", "session locate a", "session list",
		"session stats", "operator raft list-peers", "info", "monitor", "reload",
	}
}

func TestVerbs_noAgentIsOneLine(t *testing.T) {
	t.Parallel()
	const address = "127.0.0.1:1"
	for _, line := range agentVerbs() {
		got := run(t, "", append(strings.Fields(line), "-http-addr="+address)...)
		if got.code != 1 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, address) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", line, got.code, got.stdout, got.stderr)
		}
	}
}

func TestVerbs_silentAgentIsGivenUp(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	start := time.Now()
	got := run(t, "", "members", "-http-addr="+listener.Addr().String())
	if took := time.Since(start); got.code != 1 || took > time.Minute || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("after %s: %+v", took, got)
	}
}

func TestVerbs_addressForms(t *testing.T) {
	t.Parallel()
	handler := fakeAgent(map[string]string{"GET /v1/agent/members": "[]"})
	tcp := httptest.NewServer(handler)
	defer tcp.Close()
	hostPort := strings.TrimPrefix(tcp.URL, "http://")

	socket := filepath.Join(t.TempDir(), "s")
	onSocket := httptest.NewUnstartedServer(handler)
	unix, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	onSocket.Listener.Close()
	onSocket.Listener = unix
	onSocket.Start()
	defer onSocket.Close()

	for _, form := range []string{hostPort, "http://" + hostPort, "http://" + hostPort + "/", "unix://" + socket} {
		if got := run(t, "", "members", "--http-addr", form, "-format=json"); got.code != 0 || got.stdout != "[]\n" {
			t.Errorf("%s: %+v", form, got)
		}
	}
}

// brokenPipe is a reader that has gone, as with `| head -1`.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestVerbs_brokenPipeIsSilent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(fakeAgent(map[string]string{"GET /v1/agent/members": threeMembers}))
	defer server.Close()
	for _, format := range []string{"table", "json"} {
		var errs bytes.Buffer
		Run([]string{"members", "-format=" + format, "-http-addr=" + server.URL}, term.Streams{Out: brokenPipe{}, Err: &errs})
		if errs.Len() > 0 {
			t.Errorf("%s: stderr %q", format, errs.String())
		}
	}
}
