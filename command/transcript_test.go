package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeAgent answers as an agent of three members would. The keys are method
// and path, the values JSON, or a status and JSON.
func fakeAgent(answers map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := r.Method + " " + r.URL.EscapedPath()
		if r.URL.RawQuery != "" {
			target += "?" + r.URL.RawQuery
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		if len(body) > 0 {
			target += " " + string(body)
		}
		answer, ok := answers[target]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			json.NewEncoder(w).Encode(map[string]string{"Error": "no answer prepared for " + target, "Code": "unknown_path"})
			return
		}
		status := http.StatusOK
		if fmt.Sscanf(answer, "%d ", &status); status != http.StatusOK {
			_, answer, _ = strings.Cut(answer, " ")
		}
		w.WriteHeader(status)
		io.WriteString(w, answer)
	})
}

const threeMembers = `[
 {"Name":"web2","ID":"b2","Addr":"2001:db8::2","Port":8701,"Status":"alive","Role":"voter","Version":"0.1.0","Load":{"CPU":0.5,"InFlight":7,"RequestRate":120.25},"Sessions":40,"Tags":{"zone":"b","rack":"1"}},
 {"Name":"web1","ID":"a1","Addr":"10.0.0.11","Port":8701,"Status":"alive","Role":"leader","Version":"0.1.0","Load":{"CPU":0.125},"Sessions":42},
 {"Name":"web3\u001b[31m","ID":"c3","Addr":"10.0.0.13","Port":8701,"Status":"failed","Role":"voter","Version":"0.1.0","Sessions":39}]`

const oneSession = `{"ID":"s1","Version":3,"Created":"2026-01-02T03:04:05Z","Accessed":"2026-01-02T03:05:05Z","Expires":"2026-01-02T03:35:05Z","TTL":"30m","MaxAge":"24h","Attributes":{"user":"ada","cart":["tea"]},"Owner":"web1","Replicas":["web2","web3"]}`

// stories are the transcripts in testdata: command lines against one agent.
func stories() map[string]struct {
	answers map[string]string
	lines   []string
	stdin   string
} {
	type story = struct {
		answers map[string]string
		lines   []string
		stdin   string
	}
	done := `{"ID":"s1","Version":4,"Owner":"web1","Replicas":["web2","web3"]}`
	return map[string]story{
		"members": {map[string]string{"GET /v1/agent/members": threeMembers}, []string{
			"members", "members -detailed", "members -status=failed", "members -status=fail", "members -status=left -format=json", "members -status=alive --format json",
		}, ""},
		"ring": {map[string]string{
			"GET /v1/ring":                        `{"Epoch":17,"Leader":"web1","Members":[{"Name":"web2","Position":1,"State":"up","Slots":341,"Owned":341,"Copies":683,"Sessions":40},{"Name":"web1","Position":0,"State":"up","Slots":342,"Owned":683,"Copies":341,"Sessions":42},{"Name":"web3","Position":2,"State":"down","Slots":341}]}`,
			"GET /v1/ring/locate/cart-42":         `{"Slot":5,"Home":"web3","Owner":"web1","Successors":["web2"]}`,
			"GET /v1/ring/locate/a%2Fb":           `{"Slot":6,"Home":"web3","Owner":"web1","Successors":null}`,
			"GET /v1/operator/raft/configuration": `{"Index":9,"Leader":"","Servers":[{"ID":"b2","Node":"web2","Address":"10.0.0.12:8702","Voter":true},{"ID":"a1","Node":"web1","Address":"10.0.0.11:8702","Voter":true}]}`,
			"GET /v1/agent/members":               threeMembers,
		}, []string{"ring", "ring -format=json", "ring locate cart-42", "ring locate -format=json a/b", "session locate cart-42", "operator raft list-peers", "operator raft list-peers -format=json", "session stats", "session stats -format=json"}, ""},
		"empty": {map[string]string{
			"GET /v1/agent/members": `null`, "GET /v1/ring": `{"Epoch":0}`, "GET /v1/catalog/services": `[]`, "GET /v1/sessions?limit=1000": `[]`, "GET /v1/sessions?limit=1001": `[]`,
			"GET /v1/operator/raft/configuration": `{}`, "GET /v1/agent/self": `{}`, "PUT /v1/agent/reload": `{}`,
		}, []string{
			"members -format=json", "ring -format=json", "services list -format=json", "session list -format=json", "session stats -format=json",
			"operator raft list-peers -format=json", "info -format=json", "reload -format=json", "members", "services list", "session list",
		}, ""},
		"sessions": {map[string]string{
			"POST /v1/sessions {}": oneSession,
			`POST /v1/sessions {"TTL":"1h","Principal":"ada","Attributes":{"cart":["tea"],"n":1,"user":"ada"}}`: oneSession,
			"GET /v1/sessions/s1": oneSession,
			`PATCH /v1/sessions/s1 {"Attributes":{"cart":null,"user":"5"}}`: done,
			`PUT /v1/sessions/s1 {"Attributes":{"n":5}}`:                    `{"ID":"s1","Version":5,"Owner":"web1","Replicas":null}`,
			"DELETE /v1/sessions/s1":                                        done,
			"GET /v1/sessions/gone":                                         `404 {"Error":"there is no such session","Code":"unknown_session"}`,
			"GET /v1/sessions/busy?consistency=stale":                       `503 {"Error":"the owner has just changed; try again","Code":"unavailable"}`,
			"GET /v1/sessions?limit=3":                                      `[{"ID":"s1","Size":20,"Version":3,"Principal":"ada"},{"ID":"s2","Size":1,"Version":1},{"ID":"s3","Size":1,"Version":1}]`,
			"GET /v1/sessions?limit=1000&principal=ada":                     `[{"ID":"s1","Size":20,"Version":3,"Principal":"ada"}]`,
		}, []string{
			"session create", `session create -ttl=1h -principal=ada user=ada cart=["tea"] n=1 -format=json`, "session get s1", "session get s1 -format=json",
			`session put s1 cart=null user="5"`, "session put -replace s1 n=5 -format=json", "session delete s1", "session get gone", "session get -stale -format=json busy",
			"session list -limit=2", "session list -limit=0 -principal=ada -format=json",
		}, ""},
		"services": {map[string]string{
			"GET /v1/catalog/services": `[{"Name":"shop","Instances":[{"ID":"shop","Name":"shop","Member":"web2","Address":"10.0.0.12","Port":8080,"Weight":100,"Health":"passing","NewSessions":25},{"ID":"shop","Name":"shop","Member":"web1","Address":"::1","Port":8080,"Weight":50,"Backup":true,"Health":"passing","Drain":true,"Reason":"new version","DrainUntil":"2026-01-02T03:04:05Z","Tags":["blue"],"InFlight":2,"Queued":3,"Load":0.5},{"ID":"shop","Name":"shop","Member":"web3","Address":"10.0.0.13","Port":8080,"Weight":100,"Health":"passing","EjectedUntil":"2026-01-02T03:04:05Z","Failures":7}]}]`,
			"GET /v1/agent/self":       `{"Member":{"Name":"web1"}}`,
			`PUT /v1/agent/service/register {"ID":"shop","Name":"shop","Port":8080,"Weight":100,"Protocol":"http1","Checks":[{"HTTP":"/health","Interval":"2s","Timeout":"1s","Method":"GET","Healthy":"200-399","Warning":"429","BodyLimit":65536,"Rise":1,"Fall":1}]}`: ``,
			"PUT /v1/agent/service/deregister/shop":                                                      ``,
			"PUT /v1/agent/service/deregister/nix":                                                       `404 {"Error":"no instance nix is registered here","Code":"not_found"}`,
			"PUT /v1/agent/service/maintenance/shop?enable=true&reason=disk":                             ``,
			"PUT /v1/agent/service/maintenance/shop?enable=false":                                        ``,
			"PUT /v1/agent/service/maintenance/shop?drain=true&enable=true":                              ``,
			"PUT /v1/agent/service/maintenance/shop?deadline=10m0s&drain=true&enable=true&reason=deploy": ``,
			`PUT /v1/agent/service/weight/shop {"Weight":20}`:                                            ``,
		}, []string{
			"services list", "services list -local -format=json", "services register -", "services deregister shop", "services deregister nix",
			"services maint -enable -id=shop -reason=disk", "services maint -disable -id=shop", "services drain -enable -id=shop",
			"services drain -enable -id=shop -deadline=10m -reason=deploy", "services weight -id=shop 20",
		}, "service \"shop\" {\n port = 8080\n check { http = \"/health\" }\n}\n"},
		"moves": {map[string]string{
			"PUT /v1/agent/drain?enable=true":               `{"Node":"web1","Draining":true,"Epoch":17}`,
			"PUT /v1/agent/drain?enable=true&node=web3":     `{"Node":"web3","Draining":true,"Epoch":17}`,
			"PUT /v1/agent/drain?enable=false&node=web3":    `{"Node":"web3","Draining":false,"Epoch":17}`,
			"PUT /v1/agent/drain?enable=true&node=web9":     `404 {"Error":"no member web9 is in the ring; ` + "`rondel ring`" + ` lists those that are","Code":"not_found"}`,
			"PUT /v1/agent/drain?enable=true&node=web2":     `409 {"Error":"no other member is up to take the sessions of web2; add one, or end another drain first","Code":"conflict"}`,
			"PUT /v1/ring/rebalance":                        `{"Moved":171,"Epoch":17,"Joining":["web4"]}`,
			"PUT /v1/ring/move?from=web1&slots=50&to=web2":  `{"Moved":50,"Epoch":17}`,
			"PUT /v1/ring/move?from=web1&slots=500&to=web2": `{"Moved":342,"Epoch":17}`,
			"GET /v1/agent/self":                            `{"Member":{"Name":"web1"}}`,
			"GET /v1/ring":                                  `{"Epoch":17,"Leader":"web1","Moving":62,"Short":5,"Members":[{"Name":"web1","Position":0,"State":"draining","Draining":true,"Slots":31,"Owned":62,"Copies":400,"Sessions":42},{"Name":"web2","Position":1,"State":"up","Slots":993,"Owned":962,"Copies":62,"Sessions":40},{"Name":"web3","Position":2,"State":"drained","Draining":true}]}`,
			"GET /v1/agent/members":                         `[{"Name":"web1","Addr":"10.0.0.11","Port":8701,"Status":"alive","Role":"leader","Version":"0.1.0","Sessions":42,"Draining":true}]`,
		}, []string{
			"ring", "members", "drain -enable", "drain -enable -wait -node=web3", "drain -wait -node=web3", "drain -wait -node=web2", "drain -wait -node=web8", "drain -enable -node=web9", "drain -enable -node=web2", "drain -disable -node=web3",
			"drain", "drain -enable -disable", "drain -disable -wait", "drain -enable -deadline=10m", "drain -enable -wait -deadline=10",
			"ring rebalance", "ring move -slots=50 web1 web2", "ring move -slots=500 web1 web2", "ring move web1 web2", "ring move -slots=5 web1 web1", "ring move -slots=5 web1",
		}, ""},
		"cluster": {map[string]string{
			"PUT /v1/agent/join/10.0.0.11":              ``,
			"PUT /v1/agent/join/10.0.0.12":              `503 {"Error":"nobody answers at 10.0.0.12:8701","Code":"unavailable"}`,
			"PUT /v1/agent/leave":                       `409 {"Error":"2 of 3 voters would be left with 1 failed","Code":"would_break_quorum"}`,
			"PUT /v1/agent/leave?force=true":            ``,
			"PUT /v1/agent/force-leave/web3":            ``,
			"PUT /v1/agent/force-leave/web3?prune=true": ``,
			"PUT /v1/agent/force-leave/web1":            `409 {"Error":"web1 is alive: stop it first","Code":"conflict"}`,
			"PUT /v1/agent/reload":                      `{"Changed":["route.shop","session.ttl"],"NeedsRestart":["bind"]}`,
			"GET /v1/agent/self":                        `{"Stats":{"raft":{"term":"3","state":"Leader"},"gossip":{"health":"0"}}}`,
			"GET /v1/agent/monitor?loglevel=debug":      "one line\nanother\n",
		}, []string{
			"join 10.0.0.11", "join 10.0.0.11,10.0.0.12", "join 10.0.0.12", "leave", "leave -force", "force-leave web3", "force-leave -prune web3", "force-leave web1",
			"reload", "reload -format=json", "info", "info -format=json", "monitor -log-level=debug",
		}, ""},
	}
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	for name, story := range stories() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(fakeAgent(story.answers))
			defer server.Close()
			var text strings.Builder
			for _, line := range story.lines {
				got := run(t, story.stdin, append(strings.Fields(line), "-http-addr="+server.URL)...)
				if strings.Contains(line, "json") && got.code == 0 && !json.Valid([]byte(got.stdout)) {
					t.Errorf("%s: stdout is not one JSON document: %q", line, got.stdout)
				}
				if got.code != 0 && got.stdout != "" && !strings.HasPrefix(line, "monitor") {
					t.Errorf("%s: failed and wrote to stdout: %q", line, got.stdout)
				}
				fmt.Fprintf(&text, "$ rondel %s\n%s", line, got.stdout)
				for errLine := range strings.Lines(got.stderr) {
					text.WriteString("stderr: " + errLine)
				}
				fmt.Fprintf(&text, "exit %d\n\n", got.code)
			}
			golden(t, filepath.Join("testdata", name+".txt"), text.String())
		})
	}
	if os.Getenv("RONDEL_HTTP_ADDR") != "" {
		t.Log("RONDEL_HTTP_ADDR is set and has no influence: every line names its agent")
	}
}
