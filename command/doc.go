// Package command is rondel's command line: one visible table from verb to
// factory, and what holds for all verbs.
//
// It promises exit codes (0 done, 1 failed, 2 used wrongly), results on stdout
// and all else on stderr. What a verb does is in the folder of that name;
// nothing here talks to an agent.
package command
