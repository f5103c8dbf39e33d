//go:build !peers

package main

// peers lists no contender: without the tag peers none is compiled, because that
// takes minutes and is not needed to test or vet the rest.
func peers() []Contender { return nil }
