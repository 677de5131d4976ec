// Package services holds the verbs about instances of applications: list,
// register, deregister, maint and drain. They act on the agent asked.
package services
