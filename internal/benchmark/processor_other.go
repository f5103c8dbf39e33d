//go:build !unix

package benchmark

import (
	"errors"
	"time"
)

// ProcessorTime is known on Unix only.
func ProcessorTime() (time.Duration, error) { return 0, errors.ErrUnsupported }
