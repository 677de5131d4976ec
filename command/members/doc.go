// Package members is the verb that lists the members of the cluster as the
// agent asked sees them. Its JSON is a shape of its own, so that it stays when
// others change.
package members
