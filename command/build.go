package command

import (
	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent"
	"github.com/rondel-project/rondel/agent/config"
	command "github.com/rondel-project/rondel/command/agent"
)

// buildAgent is the seam between the command line and the agent.
func buildAgent(cfg config.Runtime, log hclog.Logger, reload command.ReloadFunc) (command.Agent, error) {
	a, err := agent.New(cfg, log, agent.ReloadFunc(reload))
	if err != nil {
		return nil, err // a nil *Agent in the interface would look like one
	}
	return a, nil
}
