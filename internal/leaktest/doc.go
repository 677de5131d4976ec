// Package leaktest fails tests that leave goroutines behind.
//
// It owns how a package's TestMain looks for them. It promises to wait long for
// those that are about to end: on a busy machine that may take more than the half
// second that goleak gives them. It does not look after each single test: those
// that have to prove that they leave nothing do that themselves.
package leaktest
