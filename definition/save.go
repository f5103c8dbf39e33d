package definition

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/holdfast-dev/holdfast/session"
)

// Save writes a definition to path, in the format of its extension. The file
// appears whole or not at all. A file that is already there is replaced only
// with overwrite, else it is a session.InvalidError; other errors are those of
// Encode and of writing. The directory must exist.
func Save(path string, d session.Definition, overwrite bool) error {
	data, err := Encode(d, filepath.Ext(path))
	if err != nil {
		return err
	}
	if err := place(path, data, overwrite); err != nil {
		return fmt.Errorf("save definition %q: %w", d.Name, err)
	}
	return nil
}

func place(path string, data []byte, overwrite bool) error {
	if overwrite {
		return renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(filepath.Dir(path)))
	}
	pending, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o644), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return err
	}
	defer func() { _ = pending.Cleanup() }() // nothing is left to lose
	if _, err := pending.Write(data); err != nil {
		return err
	}
	if err := pending.Sync(); err != nil {
		return err
	}
	// A rename would replace what another process wrote a moment ago; a link does not.
	err = os.Link(pending.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return &session.InvalidError{Field: "path", Reason: fmt.Sprintf("%q exists and is not overwritten unless asked", path)}
	}
	return err
}
