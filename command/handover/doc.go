// Package handover follows sessions on their way from member to member, and
// tells how far they are. It changes nothing.
package handover
