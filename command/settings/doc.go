// Package settings declares the options that configure an agent, for the verbs
// that read a configuration: agent, which runs it, and validate, which must give
// the same verdict.
//
// It turns flags into a config.Options and checks nothing itself.
package settings
