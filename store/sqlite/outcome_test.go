package sqlite_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

var errDisk = errors.New("the disk did not answer")

func TestSave_commitThatOnlySeemedToFailIsSaved(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	s := create(t, st, "s")
	news, stop := st.Subscribe(ref("s"))
	defer stop()
	st.FailCommits(errDisk, true)
	saved, err := st.Save(t.Context(), said(t, s, "one"), store.Commit{ID: "lost answer"})
	if err != nil || saved.Version() != 2 {
		t.Fatalf("save: version %d, %v", saved.Version(), err)
	}
	waitFor(t, news)
	st.FailCommits(errDisk, true)
	if _, err := st.Append(t.Context(), said(t, saved, "two"), store.Append{}); err != nil {
		t.Errorf("append: %v", err)
	}
	if got := texts(load(t, st, "s")); len(got) != 2 {
		t.Errorf("it says %q", got)
	}
}

func TestSave_commitThatFailedIsReportedAsNotSaved(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	s := create(t, st, "s")
	st.FailCommits(errDisk, false)
	_, err := st.Save(t.Context(), said(t, s, "one"), store.Commit{ID: "c"})
	if !errors.Is(err, errDisk) || errors.Is(err, session.ErrUnknownOutcome) {
		t.Errorf("save: %v, want the disk's error", err)
	}
	if got := load(t, st, "s"); got.Version() != 1 || got.Len() != 0 {
		t.Errorf("version %d with %d messages", got.Version(), got.Len())
	}
	save(t, st, said(t, s, "again"))
}

func TestSave_outcomeThatCannotBeLearntIsUnknown(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	s := create(t, st, "s")
	st.FailCommits(errDisk, false, false) // the search for the outcome fails too
	_, err := st.Save(t.Context(), said(t, s, "one"), store.Commit{ID: "c"})
	var unknown *session.UnknownOutcomeError
	if !errors.As(err, &unknown) || unknown.ID != "s" || unknown.CommitID != "c" || !errors.Is(err, errDisk) {
		t.Errorf("save: %v, want UnknownOutcomeError of commit c", err)
	}
	st.FailCommits(errDisk, true) // a lease leaves nothing to look for
	if _, err := st.Acquire(t.Context(), ref("s"), "me", time.Minute); !errors.Is(err, session.ErrUnknownOutcome) {
		t.Errorf("acquire: %v, want UnknownOutcomeError", err)
	}
	if _, held, err := st.Holding(t.Context(), ref("s")); !held || err != nil {
		t.Errorf("held: %t, %v", held, err)
	}
}

func TestWrite_moreThanSQLiteHoldsIsTooLarge(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	create(t, st, "s")
	err := st.Rewrite(t.Context(), "UPDATE sessions SET id = zeroblob(2000000000)")
	if !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("two gigabytes in one value: %v", err)
	}
	load(t, st, "s") // nothing was written
}
