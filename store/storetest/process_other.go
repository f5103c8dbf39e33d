//go:build !unix

package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
)

func work(context.Context, *child.Process, Opener, []func() (string, error)) error {
	return errors.ErrUnsupported
}

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
