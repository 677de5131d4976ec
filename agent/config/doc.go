// Package config turns what an operator wrote into what an agent runs on.
//
// A File is one layer: pointers, nil where nothing was said. Load merges
// defaults, files in the order given, the environment and flags, the later one
// winning, and returns a Runtime of plain values. Lists replace one another;
// service and route blocks of one name merge option by option.
//
// It promises to report every problem at once, each with the place it was
// written, the option, the value and the rule, and the same verdict wherever a
// value came from. `rondel validate` and the start of an agent both call Load.
//
// It does not listen, dial or watch: the addresses of the machine and the
// environment are passed in. The only files it reads are those it was told to.
package config
