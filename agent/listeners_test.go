package agent

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rondel-project/rondel/agent/config"
)

// A reload moves listeners, turns TLS on and off, and connections stay.
func TestReload_movesListeners(t *testing.T) {
	t.Parallel()
	cert, key := writeCertificate(t, t.TempDir(), "one")
	s := &site{}
	s.addAgent(t, 1, func(*config.Runtime) {})
	s.addShop(t, "shop1", s.agents[0])
	s.ready(t)
	a := s.agents[0]
	old := proxyOf(a)
	nc, err := net.Dial("tcp", old)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	br := bufio.NewReader(nc)
	ask := func() error {
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	log := filepath.Join(t.TempDir(), "access.log")
	next := *a.cfg.Load()
	next.Proxy.AccessLog = config.AccessLog{Path: log, Format: "combined", Query: "none"}
	next.Proxy.HTTP = netip.MustParseAddrPort(taken.Addr().String())
	if err := a.Reload(next); err == nil {
		t.Fatal("a port that is taken was no error")
	}
	if proxyOf(a) != old || a.doors.access.On() {
		t.Error("something was changed by a reload that failed")
	}
	// Port 0 of another address is another one than the present one.
	next.Proxy.HTTP = netip.AddrPortFrom(ownLoopback(), 0)
	next.Proxy.HTTPS = netip.AddrPortFrom(ownLoopback(), 0)
	next.Proxy.CertFile, next.Proxy.KeyFile = cert, key
	if err := a.Reload(next); err != nil {
		t.Fatal(err)
	}
	if proxyOf(a) == old || len(a.doors.proxyPorts) != 2 {
		t.Fatalf("listeners are %v", a.doors.proxyPorts)
	}
	s.await(t, "the port that others are told of", func() bool {
		return a.gossip.Self().ProxyPort == portOf(a.doors.proxyPorts[0].Addr())
	})
	if r, _ := s.ask(t, a, "/", ""); r.status != 200 {
		t.Errorf("at the new address: %d", r.status)
	}
	if !speaksTLS(a.doors.proxyPorts[1].Addr().String()) {
		t.Error("no TLS at its listener")
	}
	if err := ask(); err != nil {
		t.Errorf("a connection by the old listener: %v", err)
	}
	s.await(t, "the old listener closed", func() bool {
		nc, err := net.Dial("tcp", old)
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
	secure := a.doors.proxyPorts[1].Addr().String()
	s.await(t, "the access log", func() bool {
		text, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Contains(string(text), `"GET / HTTP/1.1" 200 `)
	})
	next.Proxy.HTTPS = netip.AddrPort{}
	if err := a.Reload(next); err != nil {
		t.Fatal(err)
	}
	s.await(t, "TLS off", func() bool { return !speaksTLS(secure) })
	if got := a.metrics; got != nil {
		families, err := got.Gather()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, f := range families {
			seen[f.GetName()] = true
		}
		for _, name := range []string{
			"rondel_proxy_connections", "rondel_proxy_connections_total", "rondel_proxy_connections_refused_total", "rondel_proxy_queue",
			"rondel_proxy_instance_in_flight", "rondel_proxy_instance_requests_total", "rondel_proxy_instance_failures_total",
			"rondel_proxy_instance_ejected", "rondel_proxy_bytes_total", "rondel_access_log_dropped_total",
		} {
			if !seen[name] {
				t.Errorf("no figure %s", name)
			}
		}
	}
}

func speaksTLS(addr string) bool {
	nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		nc.Close()
	}
	return err == nil
}
