package setup

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/document"
)

func TestStoreSchemes_typos(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"sqlit": "sqlite", "sqllite": "sqlite", "SQLite": "sqlite", "postgre": "postgres", "postgress": "postgres", "postgresq": "postgres",
		"fiel": "file", "inmen": "inmem", "mysql": "", "mongo": "", "https": "", "": "",
	} {
		if got := document.Nearest(typed, storeSchemes); got != want {
			t.Errorf("%q is taken for %q, want %q", typed, got, want)
		}
	}
}

func TestStoreURL_sameStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b StoreURL
		same bool
	}{
		{StoreURL{"sqlite", "x/a.db"}, StoreURL{"sqlite", "x/../x/a.db"}, true},
		{StoreURL{"sqlite", "a.db"}, StoreURL{"sqlite", "b.db"}, false},
		{StoreURL{"sqlite", "a"}, StoreURL{"file", "a"}, false},
		{StoreURL{"inmem", ""}, StoreURL{"inmem", ""}, true},
		{StoreURL{"postgres", "postgres://a/b"}, StoreURL{"postgres", "postgres://a/b"}, true},
		{StoreURL{"postgres", "postgres://a/b"}, StoreURL{"postgres", "postgres://a/c"}, false},
	} {
		if got := c.a.Same(c.b); got != c.same {
			t.Errorf("%s and %s: same is %t", c.a, c.b, got)
		}
	}
}
