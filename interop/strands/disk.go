package strands

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// batch replaces many files, in two steps for all of them: their new contents
// become durable, then they are renamed. So a crash leaves each of them old or
// new, whole.
type batch struct {
	paths []string
	dirs  []string // in which something was made or renamed
}

// changed notes a directory in which something was made or renamed.
func (b *batch) changed(dir string) {
	if !slices.Contains(b.dirs, dir) {
		b.dirs = append(b.dirs, dir)
	}
}

// makeDir makes a directory and those above it, for its owner alone.
func (b *batch) makeDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("is a file")}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := b.makeDir(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	b.changed(filepath.Dir(dir))
	return nil
}

// update adds a file whose content differs.
func (b *batch) update(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	b.paths = append(b.paths, path)
	return createTemp(path, data)
}

// syncsAtOnce is how many files become durable at the same time: file systems
// do several for the price of one.
const syncsAtOnce = 16

// commit makes the files that were added the real ones. They and the directories
// are durable when it returns.
func (b *batch) commit() error {
	if err := atOnce(b.paths, func(path string) error { return syncFile(tempPath(path)) }); err != nil {
		return err
	}
	for _, path := range b.paths {
		if err := renameTemp(path); err != nil {
			return err
		}
		b.changed(filepath.Dir(path))
	}
	return atOnce(b.dirs, syncDir)
}

// atOnce does something to several paths at the same time.
func atOnce(paths []string, do func(path string) error) error {
	errs := make([]error, len(paths))
	var wg sync.WaitGroup
	free := make(chan struct{}, syncsAtOnce)
	for i, path := range paths {
		free <- struct{}{}
		wg.Go(func() {
			errs[i] = do(path)
			<-free
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

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
	var b batch
	if err := b.update(path, data); err != nil {
		return err
	}
	return b.commit()
}

// writeTemp writes and syncs the temporary file that renameTemp makes the real one.
func writeTemp(path string, data []byte) error {
	if err := createTemp(path, data); err != nil {
		return err
	}
	if err := syncFile(tempPath(path)); err != nil {
		return errors.Join(err, os.Remove(tempPath(path)))
	}
	return nil
}

// createTemp writes the temporary file of a path, which is not durable yet.
func createTemp(path string, data []byte) error {
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
	var b batch
	if err := b.makeDir(dir); err != nil {
		return err
	}
	return b.commit()
}
