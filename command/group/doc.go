// Package group is the verb that only has verbs below it, such as session: it
// says which there are. It runs none of them.
package group
