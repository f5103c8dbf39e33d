package foreign_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// A file that is cut off, at any page, is an error and no panic, and its copy
// is removed.
func TestOpenSQLite_aFileThatIsCutOff(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "whole.db")
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "CREATE TABLE a (x); CREATE TABLE b (x); INSERT INTO a WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 2000) SELECT i FROM n")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !foreign.IsSQLite(whole[:foreign.SQLiteHead]) {
		t.Fatal("it is not recognized")
	}
	for _, size := range []int{int(foreign.SQLiteHead), 100, 4096, len(whole) / 2, len(whole) - 1} {
		cut := filepath.Join(t.TempDir(), "cut.db")
		if err := os.WriteFile(cut, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := foreign.OpenSQLite(t.Context(), cut)
		if err != nil {
			if !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("%d bytes: %v", size, err)
			}
			continue
		}
		n := 0
		has, err := d.Has(t.Context(), "a", "b")
		if err == nil && has {
			err = d.QueryRowContext(t.Context(), "SELECT count(*) FROM a").Scan(&n)
		}
		if err == nil && n != 2000 {
			t.Errorf("%d of %d bytes: no error, and %d of 2000 rows", size, len(whole), n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := foreign.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "none.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
