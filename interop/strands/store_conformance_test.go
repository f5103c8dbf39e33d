package strands_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Data {
		dir, clock := filepath.Join(t.TempDir(), "sessions"), storetest.NewClock()
		return storetest.Data{
			Clock: clock,
			Open:  func(t testing.TB) store.Store { return openStore(t, dir, strands.StoreConfig{Now: clock.Now}) },
			Corrupt: func(t testing.TB, r store.Ref) {
				damage(t, logOf(dir, r), func(raw []byte) []byte { return raw[:60] })
			},
			Newer: func(t testing.TB, r store.Ref) {
				damage(t, logOf(dir, r), func(raw []byte) []byte {
					document, err := file.Document(raw)
					if err != nil {
						t.Fatal(err)
					}
					return bytes.Replace(document, []byte(`"formatVersion":1`), []byte(`"formatVersion":99`), 1)
				})
			},
			Damages: map[string]func(testing.TB, store.Ref){
				"a message": func(t testing.TB, r store.Ref) {
					damage(t, logOf(dir, r), func(raw []byte) []byte {
						return bytes.Replace(raw, []byte("message 1"), []byte("message 9"), 1)
					})
				},
			},
		}
	})
}

func openStore(t testing.TB, dir string, c strands.StoreConfig) *strands.Store {
	t.Helper()
	st, err := strands.Open(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return st
}

func logOf(dir string, r store.Ref) string {
	if r.Tenant != session.DefaultTenant {
		dir = filepath.Join(dir, "tenants", r.Tenant)
	}
	return filepath.Join(dir, "session_"+r.ID, "holdfast", r.ID+".json")
}

func damage(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(raw), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
