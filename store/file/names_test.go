package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
)

func TestHostileNames_neverTouchTheDisk(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	dir := filepath.Join(outside, "sessions")
	st := open(t, dir, file.Config{})
	create(t, st, "x")
	before := hashes(t, outside)
	for _, name := range []string{
		"", ".", "..", "../x", "../../etc/passwd", "a/b", `a\b`, "/etc/passwd", "a\x00b", "x.json", ".x", "-x", "_x", "a b", "é", "x\n", "x\xff",
		"x:stream", "C:x", "~root", strings.Repeat("a", 129), strings.Repeat("a", 10_000), "日本", "a\u202eb",
	} {
		for _, r := range []store.Ref{{Tenant: session.DefaultTenant, ID: name}, {Tenant: name, ID: "x"}} {
			errs := map[string]error{}
			_, errs["load"] = st.Load(t.Context(), r, true)
			_, errs["info"] = st.Info(t.Context(), r)
			errs["delete"] = st.Delete(t.Context(), r, 0)
			_, errs["acquire"] = st.Acquire(t.Context(), r, "h", time.Minute)
			_, errs["renew"] = st.Renew(t.Context(), r, store.Lease{Token: 1}, time.Minute)
			errs["release"] = st.Release(t.Context(), r, store.Lease{Token: 1})
			_, _, errs["holding"] = st.Holding(t.Context(), r)
			if r.ID == "x" {
				_, errs["list"] = st.List(t.Context(), r.Tenant, store.Query{})
				_, errs["interrupted"] = st.Interrupted(t.Context(), r.Tenant)
			}
			for call, err := range errs {
				if !errors.Is(err, session.ErrInvalid) {
					t.Errorf("%s of %.40q: %v, want InvalidError", call, r, err)
				}
			}
		}
	}
	if after := hashes(t, outside); after != before {
		t.Errorf("files changed:\n%s%s", before, after)
	}
	if locks, err := filepath.Glob(filepath.Join(dir, "*.lock")); err != nil || len(locks) != 1 {
		t.Errorf("lock files %q, %v", locks, err)
	}
}

func TestUnusualIDs_areJustIDs(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions"), file.Config{})
	ids := []string{"CON", "nul", "com1", "tenants", "default", "json", "lock", "0", "a-", "abc", "ABC", "aBc", strings.Repeat("a", 128)}
	for _, id := range ids {
		s := appendTail(t, st, said(t, create(t, st, id), "hello "+id))
		save(t, st, s, store.Commit{At: noon()})
	}
	for _, id := range ids {
		if got := texts(load(t, st, id)); len(got) != 1 || got[0] != "hello "+id {
			t.Errorf("%s: said %q", id, got)
		}
	}
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
	if err != nil || len(page.Items) != len(ids) || len(page.Corrupt) != 0 {
		t.Errorf("list: %d items, corrupt %v, %v", len(page.Items), page.Corrupt, err)
	}
}

// ignoringCase makes a directory answer to names in another case, as some
// file systems do: id opens the file of name.
func ignoringCase(t *testing.T, st *file.Store, dir, name, id string) {
	t.Helper()
	for _, ext := range []string{".json", ".lock"} {
		if err := os.Symlink(name+ext, filepath.Join(dir, id+ext)); err != nil {
			t.Fatal(err)
		}
	}
	st.Spelling(func(_, asked string) (bool, error) { return asked == name+".json", nil })
}

func TestIDs_thatDifferOnlyInCaseAreRefusedWhereCaseIsIgnored(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s := create(t, st, "abc")
	ignoringCase(t, st, dir, "abc", "ABC")
	before := hashes(t, dir)

	var conflict *session.ConflictError
	other := fresh(t, session.Identity{ID: "ABC"})
	if _, err := st.Create(t.Context(), other, store.Commit{}); !errors.As(err, &conflict) || conflict.Reason != session.ReasonExists {
		t.Errorf("create: %v, want ConflictError exists", err)
	}
	errs := map[string]error{}
	_, errs["load"] = st.Load(t.Context(), ref("ABC"), true)
	_, errs["info"] = st.Info(t.Context(), ref("ABC"))
	_, errs["save"] = st.Save(t.Context(), other, store.Commit{})
	_, errs["append"] = st.Append(t.Context(), other, store.Append{})
	_, errs["acquire"] = st.Acquire(t.Context(), ref("ABC"), "h", time.Minute)
	for call, err := range errs {
		if !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", call, err)
		}
	}
	if err := st.Delete(t.Context(), ref("ABC"), 0); err != nil {
		t.Errorf("delete: %v", err)
	}
	if after := hashes(t, dir); after != before {
		t.Errorf("files changed:\n%s%s", before, after)
	}
	save(t, st, said(t, s, "still mine"), store.Commit{At: noon()})
}

func TestTenants_thatDifferOnlyInCaseAreRefusedWhereCaseIsIgnored(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sessions")
	st := open(t, dir, file.Config{})
	s, err := st.Create(t.Context(), fresh(t, session.Identity{ID: "a", Tenant: "acme"}), store.Commit{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("acme", filepath.Join(dir, "tenants", "ACME")); err != nil {
		t.Fatal(err)
	}
	st.Spelling(func(_, name string) (bool, error) { return name == "acme" || name == "a.json", nil })
	theirs := store.Ref{Tenant: "ACME", ID: "a"}
	if _, err := st.Load(t.Context(), theirs, true); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("load: %v, want ErrNotFound", err)
	}
	if err := st.Delete(t.Context(), theirs, 0); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := st.Create(t.Context(), fresh(t, session.Identity{ID: "b", Tenant: "ACME"}), store.Commit{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("create: %v, want InvalidError", err)
	}
	page, err := st.List(t.Context(), "ACME", store.Query{})
	if err != nil || len(page.Items) != 0 || len(page.Corrupt) != 0 {
		t.Errorf("list: %+v, %v; want nothing", page, err)
	}
	if _, err := st.Load(t.Context(), store.RefOf(s), false); err != nil {
		t.Errorf("load of the true tenant: %v", err)
	}
}
