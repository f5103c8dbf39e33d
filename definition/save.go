package definition

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	if err := writeWhole(path, data, overwrite); err != nil {
		return fmt.Errorf("save definition %q: %w", d.Name, err)
	}
	return nil
}

// writeWhole writes a temporary file beside path and then gives it that name.
func writeWhole(path string, data []byte, overwrite bool) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // gone already when it was renamed
	if err := fill(temp, data); err != nil {
		return err
	}
	if overwrite {
		return os.Rename(temp.Name(), path)
	}
	// A rename would replace what another process wrote a moment ago; a link does not.
	err = os.Link(temp.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return &session.InvalidError{Field: "path", Reason: fmt.Sprintf("%q exists and is not overwritten unless asked", path)}
	}
	return err
}

// fill writes, syncs and closes.
func fill(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
