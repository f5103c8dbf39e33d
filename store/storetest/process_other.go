//go:build !unix

package storetest

import "testing"

func work(string, Opener, []func() (string, error)) int { return 1 }

func everyVersionHasOneWriter(t *testing.T, _ Processes) {
	t.Skip("processes cannot be killed and stopped here")
}
func killedAtEveryWritePoint(t *testing.T, _ Processes) {
	t.Skip("processes cannot be killed and stopped here")
}
func killedUnderLoad(t *testing.T, _ Processes) {
	t.Skip("processes cannot be killed and stopped here")
}
func lateHolderIsFenced(t *testing.T, _ Processes) {
	t.Skip("processes cannot be killed and stopped here")
}
func startersTakeTurns(t *testing.T, _ Processes) {
	t.Skip("processes cannot be killed and stopped here")
}
func watcherSeesEverything(t *testing.T, _ Processes) {
	t.Skip("processes cannot be killed and stopped here")
}
