// Rondel is one program: the agent that runs on each machine of a cluster, and
// the commands that talk to it.
package main

import (
	"io"
	"os"

	"github.com/rondel-project/rondel/command"
	"github.com/rondel-project/rondel/command/term"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, in io.Reader, out, err io.Writer) int {
	return command.Run(args, term.Streams{In: in, Out: out, Err: err})
}
