package config

import (
	"strings"
	"testing"
	"time"
)

func TestLoad_durability(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]struct {
		stall time.Duration
		err   string
	}{
		`session { durability = "disk" }`:                                        {stall: 0},
		"session { durability = \"disk\" }\nring { stall_timeout = \"45s\" }":    {stall: 45 * time.Second},
		`session { durability = "memory" }`:                                      {stall: 30 * time.Second},
		"session {\n durability = \"disk\"\n}\ndev = true":                       {err: ":2: session.durability"},
		"session {\n fsync = \"sometimes\"\n}":                                   {err: ":2: session.fsync"},
		"session { durability = \"disk\" }\nring {\n stall_timeout = \"1ms\"\n}": {err: ":3: ring.stall_timeout"},
	} {
		if !strings.Contains(text, "dev") {
			text += "\ndata_dir = \"" + dir + "\"\nbootstrap_expect = 3"
		}
		l, err := Load(Options{Paths: []string{write(t, t.TempDir(), "a.hcl", text)}, Host: testHost()})
		switch {
		case want.err != "":
			if err == nil || !strings.Contains(err.Error(), want.err) {
				t.Errorf("%s: %v, want %q", text, err, want.err)
			}
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case l.Runtime.Cluster.StallTimeout != want.stall:
			t.Errorf("%s: stall_timeout %v, want %v", text, l.Runtime.Cluster.StallTimeout, want.stall)
		}
	}
}
