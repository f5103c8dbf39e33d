//go:build !linux

package holder

import "strconv"

// processStart returns the id again, because there is no portable way to learn
// when a process began.
func processStart(pid int) (string, error) { return strconv.Itoa(pid), nil }

// processGone is never certain here: leases of dead processes must run out.
func processGone(int, string) bool { return false }
