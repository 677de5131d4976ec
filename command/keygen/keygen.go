package keygen

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// keyLength selects AES-256.
const keyLength = 32

// Command makes a key.
type Command struct{ flags.Verb }

// New returns the verb.
func New(streams term.Streams) *Command {
	return &Command{Verb: flags.NewVerb(streams, flags.Usage{
		Name: "keygen",
		Text: "Makes a random key with which agents encrypt gossip. All agents of a cluster need the same, as the option encrypt of their configuration or in RONDEL_ENCRYPT.\n\n" +
			"It needs no agent.",
		Examples: []string{"rondel keygen", "echo \"encrypt = \\\"$(rondel keygen)\\\"\" > /etc/rondel.d/encrypt.hcl"},
	})}
}

// Synopsis is the verb's line in a list.
func (c *Command) Synopsis() string { return "Make a key for gossip encryption" }

// Run executes the verb.
func (c *Command) Run(args []string) int {
	return c.Execute(args, func(context.Context, []string) error {
		var key [keyLength]byte
		rand.Read(key[:])
		_, err := fmt.Fprintln(c.Out, base64.StdEncoding.EncodeToString(key[:]))
		return err
	})
}
