package strands

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// replace puts data in the place of a file. A crash at any point leaves the old
// file or the new one, whole.
func replace(path string, data []byte) error {
	if err := writeTemp(path, data); err != nil {
		return err
	}
	if err := renameTemp(path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// update replaces a file whose content differs.
func update(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return replace(path, data)
}

// writeTemp writes and syncs the temporary file that renameTemp makes the real one.
func writeTemp(path string, data []byte) error {
	temp := tempPath(path)
	// What is there was left by a crash: there is one writer.
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

func renameTemp(path string) error {
	temp := tempPath(path)
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// tempPath returns the name under which a file is written before it is renamed.
// The other program looks at no file with such a name.
func tempPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
}

// syncDir makes what was created, renamed or removed in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDir makes a directory and those above it, durably, for its owner alone.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("is a file")}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := makeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(dir))
}
