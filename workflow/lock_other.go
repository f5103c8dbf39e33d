//go:build !unix

package workflow

import "os"

// lockFile does nothing here: an entry is one write at the end of the file.
func lockFile(*os.File) error { return nil }
