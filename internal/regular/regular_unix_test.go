//go:build unix

package regular_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/regular"
)

func TestRead_takesRegularFilesOfTheRootOnly(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(at("file"), []byte("12345"), 0o600), os.WriteFile(outside, []byte("s"), 0o600),
		os.Symlink("file", at("inside")), os.Symlink(outside, at("out")), syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("folder"), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	for _, name := range []string{"file", "inside"} {
		if data, err := regular.Read(root, name, name, 5); err != nil || string(data) != "12345" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	for _, name := range []string{"out", "pipe", "folder", "nothing"} {
		if _, err := regular.Read(root, name, name, 5); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	var long *regular.TooLongError
	if _, err := regular.Read(root, "file", "it", 4); !errors.As(err, &long) || long.Name != "it" || long.Most != 4 {
		t.Errorf("a file that is too long: %v", err)
	}
}

func TestReadPath_followsLinksButTakesRegularFilesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), []byte("1"), 0o600), os.Symlink(at("file"), at("link")), syscall.Mkfifo(at("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if data, err := regular.ReadPath(at("link"), 5); err != nil || string(data) != "1" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := regular.ReadPath(at("pipe"), 5); err == nil {
		t.Error("a pipe was read")
	}
}
