package sqlite_test

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/holder"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, openURL, holder.Name) }

// openURL opens a store for the process suite, which calls a path a URL.
func openURL(url string, onWrite func(string)) (store.Store, error) {
	return sqlite.Open(context.Background(), url, sqlite.Config{OnWrite: onWrite})
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	storetest.RunProcesses(t, storetest.Processes{
		Open:         openURL,
		NewURL:       func(t testing.TB) string { return filepath.Join(t.TempDir(), "data", "sessions.db") },
		ReplacesDead: runtime.GOOS == "linux",
		Leftovers:    problemsIn,
	})
}
