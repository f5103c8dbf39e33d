package file_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/holder"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, openURL, holder.Name) }

// openURL opens a store for the process suite, which calls a directory a URL.
func openURL(url string, onWrite func(string)) (store.Store, error) {
	return file.Open(url, file.Config{OnWrite: onWrite})
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	storetest.RunProcesses(t, storetest.Processes{
		Open:         openURL,
		NewURL:       func(t testing.TB) string { return filepath.Join(t.TempDir(), "sessions") },
		ReplacesDead: runtime.GOOS == "linux",
		Leftovers:    func(url string) ([]string, error) { return filepath.Glob(filepath.Join(url, ".*.tmp")) },
	})
}
