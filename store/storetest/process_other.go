//go:build !unix

package storetest

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
)

var processTests []processTest

func work(context.Context, *child.Process, Opener, []func() (string, error)) error {
	return errors.ErrUnsupported
}
