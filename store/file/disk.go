package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// disk makes all changes to files, in named steps.
//
// The module renameio would write a file safely too, but it does not sync the
// directory after the rename, and tests could not stop between its steps.
type disk struct{ onWrite func(point string) }

// step calls OnWrite before and after one change to the disk.
func (d disk) step(name string, do func() error) error {
	d.onWrite("before " + name)
	err := do()
	d.onWrite("after " + name)
	return err
}

// replace replaces a file. A crash at any point leaves the old file or the new
// one, whole. Renamed reports that the new one is in place; with an error it may
// still be lost in a power cut. The caller holds the file's lock, so an existing
// temporary file was left by a crash.
func (d disk) replace(what, path string, data []byte) (renamed bool, err error) {
	temp := tempOf(path)
	if err := d.remove(what+" leftover", temp); err != nil {
		return false, err
	}
	if err := d.writeTemp(what, temp, data); err != nil {
		return false, errors.Join(err, d.remove(what+" leftover", temp))
	}
	if err := d.step(what+" rename", func() error { return os.Rename(temp, path) }); err != nil {
		return false, errors.Join(err, d.remove(what+" leftover", temp))
	}
	return true, d.syncDir(what, filepath.Dir(path))
}

func (d disk) writeTemp(what, temp string, data []byte) error {
	var f *os.File
	err := d.step(what+" create", func() (err error) {
		f, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		return err
	})
	if err != nil {
		return err
	}
	return d.finish(what, f, func() error { _, err := f.Write(data); return err })
}

// finish writes to an open file, syncs and closes it.
func (d disk) finish(what string, f *os.File, write func() error) error {
	err := d.step(what+" write", write)
	if err == nil {
		err = d.step(what+" sync", f.Sync)
	}
	return errors.Join(err, d.step(what+" close", f.Close))
}

// tempOf returns the name under which a file is written before it is renamed. No
// session id begins with a dot.
func tempOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+tempExt)
}

const tempExt = ".tmp"

// remove deletes a file; a missing one is no step and no error.
func (d disk) remove(what, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := d.step(what+" remove", func() error { return os.Remove(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// syncDir makes what was created, renamed or removed in a directory durable.
func (d disk) syncDir(what, dir string) error {
	return d.step(what+" syncdir", func() error { return syncDir(dir) })
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeRoot makes the store's directory unless it exists.
func (d disk) makeRoot(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d.step("store mkdir", func() error {
			if err := os.MkdirAll(dir, dirMode); err != nil {
				return err
			}
			return syncDir(filepath.Dir(dir))
		})
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	// An empty directory becomes private, but not one that is shared by design,
	// such as a system's directory for temporary files.
	if info.Mode().Perm()&0o077 == 0 || info.Mode()&os.ModeSticky != 0 {
		return nil
	}
	if empty, err := isEmpty(dir); err != nil || !empty {
		return err
	}
	return os.Chmod(dir, dirMode)
}

func isEmpty(dir string) (bool, error) {
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, f.Close()
	}
	return false, errors.Join(err, f.Close())
}

// makeTenant makes a tenant's directory durable even if it exists, because
// another process may have died between making and syncing it.
func (d disk) makeTenant(dir string) error {
	return d.step("tenant mkdir", func() error {
		// The root is not made again: if it is gone, that is an error.
		for _, next := range []string{filepath.Dir(dir), dir} {
			if err := os.Mkdir(next, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := syncDir(filepath.Dir(next)); err != nil {
				return err
			}
		}
		return nil
	})
}

// makeFolder makes a session's folder and its parents, durably.
func (d disk) makeFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	return d.step("folder mkdir", func() error {
		var missing []string
		for next := dir; ; next = filepath.Dir(next) {
			if _, err := os.Stat(next); err == nil || next == filepath.Dir(next) {
				break
			}
			missing = append(missing, next)
		}
		for _, next := range slices.Backward(missing) {
			if err := os.Mkdir(next, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			if err := syncDir(filepath.Dir(next)); err != nil {
				return err
			}
		}
		return nil
	})
}
