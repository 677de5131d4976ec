// Package codec has the few primitives of Rondel's binary encodings: varints,
// length-prefixed bytes, and a reader that remembers its first error, so that
// a decoder reads straight on and checks once.
//
// It knows no message; those sit with the packages that own them.
package codec
