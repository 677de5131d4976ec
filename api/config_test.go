package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseAddress_forms(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                            "http://127.0.0.1:8700",
		"10.0.0.1:8700":               "http://10.0.0.1:8700",
		"10.0.0.1":                    "http://10.0.0.1:8700",
		"localhost:1":                 "http://localhost:1",
		":8700":                       "http://127.0.0.1:8700",
		"[::1]:8700":                  "http://[::1]:8700",
		"[::1]":                       "http://[::1]:8700",
		"http://web1:80":              "http://web1:80",
		"http://web1":                 "http://web1:8700",
		"http://[fe80::1]:80/":        "http://[fe80::1]:80",
		"https://web1:8701":           "https://web1:8701",
		"unix:///run/rondel/api.sock": "unix:///run/rondel/api.sock",
	} {
		at, err := parseAddress(in)
		if err != nil || at.shown != want {
			t.Errorf("%q: %q, %v, want %q", in, at.shown, err, want)
		}
	}
	for _, in := range []string{"ftp://a", "http://", "unix://", "a:b", "a:0", "a:70000", "::1", "http://a/v1", "http://u@a:1", "a b:1", "a:1?x", "https:///x"} {
		if at, err := parseAddress(in); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %+v, %v, want an error", in, at, err)
		}
	}
}

func TestNewClient_badFiles(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{CAFile: "/nowhere.pem"}, {ClientCert: "a"}, {ClientKey: "a"}, {ClientCert: "/nowhere", ClientKey: "/nowhere"}, {CAFile: "config_test.go"},
	} {
		if _, err := NewClient(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}

func TestDefaultConfig_environment(t *testing.T) {
	t.Setenv(EnvAddress, "unix:///x")
	t.Setenv(EnvToken, "secret")
	t.Setenv(EnvCACert, "ca")
	t.Setenv(EnvClientCert, "cert")
	t.Setenv(EnvClientKey, "key")
	if got := DefaultConfig(); got != (Config{Address: "unix:///x", Token: "secret", CAFile: "ca", ClientCert: "cert", ClientKey: "key"}) {
		t.Errorf("%+v", got)
	}
	t.Setenv(EnvAddress, "")
	if got := DefaultConfig().Address; got != DefaultAddress {
		t.Errorf("address %q", got)
	}
}

func TestClient_unixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`"10.0.0.1:8702"`)) })}
	go server.Serve(l)
	defer server.Close()
	c, err := NewClient(Config{Address: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if leader, err := c.Status().Leader(t.Context()); err != nil || leader != "10.0.0.1:8702" {
		t.Errorf("%q, %v", leader, err)
	}
}

func TestClient_noAgentThere(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, address := range map[string]string{
		"refused": "127.0.0.1:1", "silent": l.Addr().String(), "no socket": "unix:///nowhere/rondel.sock", "no name": "no.such.host.invalid:8700",
	} {
		c, err := NewClient(Config{Address: address, Timeout: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		start := time.Now()
		_, err = c.Agent().Members(t.Context())
		if !IsUnreachable(err) || !strings.Contains(err.Error(), c.Address()) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s: took %s", name, took)
		}
	}
	c, err := NewClient(Config{Address: l.Addr().String(), Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Agent().Members(ctx); !errors.Is(err, context.DeadlineExceeded) || IsUnreachable(err) {
		t.Errorf("the caller's own deadline: %v", err)
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"a:1", "[::1]:1", "unix:///x", "http://a", "https://[::1", "http://%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		at, err := parseAddress(in)
		if err != nil {
			return
		}
		if _, err := http.NewRequest("GET", at.base+"/v1/ring", nil); err != nil {
			t.Fatalf("%q was taken, and makes no request: %v", in, err)
		}
	})
}
