package demo

import (
	"context"

	"github.com/rondel-project/rondel/command/demo/shop"
	"github.com/rondel-project/rondel/command/flags"
	"github.com/rondel-project/rondel/command/term"
)

// runShop is the mode in which a process is one instance of the shop.
func runShop(streams term.Streams, args []string) int {
	cfg := shop.Config{Log: streams.Err}
	v := flags.NewVerb(streams, flags.Usage{
		Name:     "demo shop",
		Text:     "Runs one instance of the demo's shop beside an agent. `rondel demo` starts three.",
		Examples: []string{"rondel demo shop -name=shop-1 -member=agent-1 -listen=127.0.0.11:8080 -agent=http://127.0.0.11:8700"},
	})
	v.String(&cfg.Name, "name", "NAME", "of the instance")
	v.String(&cfg.Member, "member", "NAME", "of the agent beside it")
	v.String(&cfg.Listen, "listen", "ADDRESS", "where to serve")
	v.Func("agent", "URL", "HTTP API of an agent, the one beside it first", true, func(text string) error {
		cfg.Agents = append(cfg.Agents, text)
		return nil
	})
	return v.Execute(args, func(ctx context.Context, _ []string) error {
		for option, value := range map[string]string{"name": cfg.Name, "member": cfg.Member, "listen": cfg.Listen} {
			if value == "" {
				return flags.Misuse("option -%s is missing", option)
			}
		}
		s, err := shop.New(cfg)
		if err != nil {
			return err
		}
		return s.Run(ctx)
	})
}
