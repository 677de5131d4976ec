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
