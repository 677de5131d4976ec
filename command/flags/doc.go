// Package flags declares a verb's options once: parsing, help and the hints for
// mistakes come from the same declaration.
//
// Options take one dash or two and may stand before or behind the arguments;
// "--" ends them. What a verb does not declare is an error that names the
// nearest thing it does. The package also holds the options that all verbs
// share which talk to an agent.
package flags
