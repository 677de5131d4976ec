package command

import (
	"errors"

	"github.com/hashicorp/go-hclog"

	"github.com/rondel-project/rondel/agent/config"
	command "github.com/rondel-project/rondel/command/agent"
)

// buildAgent is the seam between the command line and the agent.
func buildAgent(config.Runtime, hclog.Logger, command.ReloadFunc) (command.Agent, error) {
	return nil, errors.New("this program was built without an agent")
}
