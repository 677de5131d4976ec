// Package stopper owns goroutines that are started one by one over the life of
// a part, and ends them together.
//
// It promises that Stop returns when all of them have, and that none starts
// after it. It does not bound how long they take.
package stopper
