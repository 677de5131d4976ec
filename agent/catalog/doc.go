// Package catalog knows the instances of all services: this agent's own, which
// it is told by configuration and API, and all other members', which gossip
// brings.
//
// Local owns this agent's registrations with their checks' states, maintenance
// and drain, and the file that keeps them over a restart. Catalog owns what is
// known of all members; reading it takes no lock while nothing changes. Both
// speak to gossip by opaque records, whose codec is here.
//
// It promises that a change which was acknowledged is on disk, that a broken
// file stops the start with an error that names it, and that an instance whose
// member failed or left is critical. It runs no checks, sends nothing and
// chooses no instance for a request.
package catalog
