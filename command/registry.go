package command

import (
	"github.com/mitchellh/cli"

	"github.com/rondel-project/rondel/command/agent"
	"github.com/rondel-project/rondel/command/demo"
	"github.com/rondel-project/rondel/command/drain"
	forceleave "github.com/rondel-project/rondel/command/force-leave"
	"github.com/rondel-project/rondel/command/group"
	"github.com/rondel-project/rondel/command/info"
	"github.com/rondel-project/rondel/command/join"
	"github.com/rondel-project/rondel/command/keygen"
	"github.com/rondel-project/rondel/command/leave"
	"github.com/rondel-project/rondel/command/members"
	"github.com/rondel-project/rondel/command/monitor"
	"github.com/rondel-project/rondel/command/operator"
	"github.com/rondel-project/rondel/command/reload"
	"github.com/rondel-project/rondel/command/ring"
	"github.com/rondel-project/rondel/command/services"
	"github.com/rondel-project/rondel/command/session"
	"github.com/rondel-project/rondel/command/term"
	"github.com/rondel-project/rondel/command/validate"
	"github.com/rondel-project/rondel/command/version"
)

// registry is every verb there is.
func registry(s term.Streams) map[string]cli.CommandFactory {
	verbs := map[string]cli.Command{
		"agent":                    agent.New(s, buildAgent),
		"demo":                     demo.New(s),
		"drain":                    drain.New(s),
		"force-leave":              forceleave.New(s),
		"info":                     info.New(s),
		"join":                     join.New(s),
		"keygen":                   keygen.New(s),
		"leave":                    leave.New(s),
		"members":                  members.New(s),
		"monitor":                  monitor.New(s),
		"operator":                 group.New(s, "operator", "Tools for those who run a cluster", "raft"),
		"operator raft":            group.New(s, "operator raft", "Look at how the cluster agrees", "list-peers"),
		"operator raft list-peers": operator.NewListPeers(s),
		"reload":                   reload.New(s),
		"ring":                     ring.New(s),
		"ring locate":              ring.NewLocate(s),
		"ring move":                ring.NewMove(s),
		"ring rebalance":           ring.NewRebalance(s),
		"services":                 group.New(s, "services", "See and change which applications get traffic", "list", "register", "deregister", "maint", "drain", "weight"),
		"services deregister":      services.NewDeregister(s),
		"services drain":           services.NewDrain(s),
		"services list":            services.NewList(s),
		"services maint":           services.NewMaint(s),
		"services register":        services.NewRegister(s),
		"services weight":          services.NewWeight(s),
		"session":                  group.New(s, "session", "See and change sessions", "create", "get", "put", "delete", "locate", "list", "stats"),
		"session create":           session.NewCreate(s),
		"session delete":           session.NewDelete(s),
		"session get":              session.NewGet(s),
		"session list":             session.NewList(s),
		"session locate":           ring.NewSessionLocate(s),
		"session put":              session.NewPut(s),
		"session stats":            session.NewStats(s),
		"validate":                 validate.New(s),
		"version":                  version.New(s),
	}
	factories := make(map[string]cli.CommandFactory, len(verbs))
	for name, verb := range verbs {
		factories[name] = func() (cli.Command, error) { return verb, nil }
	}
	return factories
}
