// Package term writes what commands show: tables for people, one JSON document
// for scripts, and errors.
//
// Cells of a table are stripped of control characters, since names come from
// other machines. It never colours, pages or asks.
package term
