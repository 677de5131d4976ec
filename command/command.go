package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mitchellh/cli"

	"github.com/rondel-project/rondel/agent/version"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// Run executes a command line without the program's name and returns the exit
// code.
func Run(args []string, streams term.Streams) int {
	verbs := registry(streams)
	if code, done := beforeVerb(args, streams, verbs); done {
		return code
	}
	line := &cli.CLI{
		Name:        "rondel",
		Version:     version.Get().String(),
		Args:        args,
		Commands:    verbs,
		HelpFunc:    overview,
		HelpWriter:  streams.Out,
		ErrorWriter: streams.Err,
	}
	code, err := line.Run()
	if err != nil {
		term.Fail(streams.Err, err)
		return 1
	}
	return code
}

// beforeVerb answers command lines that name no verb. The library below would
// use exit codes of its own for them.
func beforeVerb(args []string, streams term.Streams, verbs map[string]cli.CommandFactory) (code int, done bool) {
	switch {
	case len(args) == 0:
		fmt.Fprintln(streams.Err, overview(verbs))
		return 2, true
	case slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]):
		if len(args) > 1 && args[0] == "help" {
			return Run(append(slices.Clone(args[1:]), "-h"), streams), true
		}
		fmt.Fprintln(streams.Out, overview(verbs))
		return 0, true
	case slices.Contains([]string{"-v", "-version", "--version"}, args[0]):
		fmt.Fprintln(streams.Out, version.Get())
		return 0, true
	case verbs[args[0]] != nil:
		return 0, false
	}
	reason := fmt.Sprintf("unknown command %q", args[0])
	if strings.HasPrefix(args[0], "-") {
		reason = fmt.Sprintf("option %s stands before the command; options come behind it", args[0])
	} else if near := flags.Nearest(args[0], top(verbs)); near != "" {
		reason += fmt.Sprintf("; did you mean %q?", near)
	}
	term.Fail(streams.Err, flags.Misuse("%s", reason))
	fmt.Fprintln(streams.Err, "Try `rondel -h`.")
	return 2, true
}

func top(verbs map[string]cli.CommandFactory) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(verbs)), func(name string) bool { return strings.Contains(name, " ") })
}

// overview is what rondel -h shows.
func overview(verbs map[string]cli.CommandFactory) string {
	var b strings.Builder
	b.WriteString("Usage: rondel <command> [options]\n\n" +
		"  Sticky proxy, cluster membership and replicated sessions in one program.\n" +
		"  Try `rondel agent -dev -service=shop:8080`; `rondel <command> -h` explains a command.\n\nCommands:\n\n")
	names := top(verbs)
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}
	for _, name := range names {
		if verb, err := verbs[name](); err == nil {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, name, verb.Synopsis())
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
