// Package load is the demo's clients: they shop like browsers, with cookies and
// one request at a time each, and keep account of every acknowledged write.
//
// The account (Ledger) is exact: a client knows what each counter must show
// after each of its writes, so a lost write, one applied twice, an old value
// and a lost session are all seen, each for itself. A write that nobody
// acknowledged may have happened or not, and counts as neither.
//
// The clients know only HTTP and the shop's JSON; they use no part of Rondel.
package load
