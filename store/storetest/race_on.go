//go:build race

package storetest

// underRace: the race detector makes a process many times slower.
const underRace = true
