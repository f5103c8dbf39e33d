package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// sick is a store with something to mend.
type sick struct {
	*inmem.Store
	problems []string
	beyond   []string // what cannot be mended
	err      error
}

var _ store.Doctors = (*sick)(nil)

// visited is the patient as one more run of the program opens it.
func (s *sick) visited(at *inmem.Store) *sick {
	s.Store = at
	return s
}

func (s *sick) Check(_ context.Context, p store.Progress) ([]string, error) {
	p.Report(1, 1)
	return append(s.problems, s.beyond...), nil
}

func (s *sick) CheckSession(context.Context, store.Ref) ([]string, error) {
	return append(s.problems, s.beyond...), nil
}

func (s *sick) Reindex(_ context.Context, p store.Progress) (int, error) {
	p.Report(1, 1)
	return 42, s.err
}

func (s *sick) Repair(_ context.Context, p store.Progress) ([]string, error) {
	p.Report(1, 1)
	mended := s.problems
	s.problems = nil
	return mended, nil
}

// bare is a store that cannot look after itself.
type bare struct{ store.Store }

func TestDoctor_mendsAndSaysWhat(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	patient := &sick{problems: []string{"the head of s-1 is not what its log makes"}}
	d.open = func() store.Store { return patient.visited(d.store.Handle()) }
	none := strings.NewReader("")
	if code := d.run(none, "doctor"); code != exitSession || !strings.Contains(d.out.String(), "problem      the head of s-1") ||
		!strings.Contains(d.out.String(), "doctor --repair") {
		t.Errorf("before: exit code %d\n%s", code, d.out)
	}
	if code := d.run(none, "doctor", "--repair", "--reindex"); code != exitOK || !strings.Contains(d.out.String(), "mended       the head of s-1") ||
		!strings.Contains(d.out.String(), "reindexed    42") {
		t.Errorf("repairing: exit code %d\n%s", code, d.out)
	}
	if code := d.run(none, "doctor", "--json", "--repair"); code != exitOK || !strings.Contains(d.out.String(), `"mended":[]`) || strings.Contains(d.out.String(), "reindexed") {
		t.Errorf("as JSON: exit code %d\n%s", code, d.out)
	}
	if code := d.run(none, "doctor", "--json"); code != exitOK || strings.Contains(d.out.String(), "mended") {
		t.Errorf("after: exit code %d\n%s", code, d.out)
	}
}

func TestDoctor_whatCannotBeMendedStaysAProblem(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	patient := &sick{problems: []string{"small"}, beyond: []string{"great"}}
	d.open = func() store.Store { return patient.visited(d.store.Handle()) }
	if code := d.run(strings.NewReader(""), "doctor", "--repair"); code != exitSession ||
		!strings.Contains(d.out.String(), "mended       small") || !strings.Contains(d.out.String(), "problem      great") {
		t.Errorf("exit code %d\n%s%s", code, d.out, d.err)
	}
	patient.problems, patient.err = []string{"small"}, errors.New("disk full")
	if code := d.run(strings.NewReader(""), "doctor", "--repair", "--reindex"); code != exitIO ||
		!strings.Contains(d.out.String(), "mended       small") || !strings.Contains(d.err.String(), "disk full") {
		t.Errorf("what was mended before a failure is not told: exit code %d\n%s%s", code, d.out, d.err)
	}
}

func TestDoctor_storeThatCannotBeMended(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.open = func() store.Store { return bare{d.store.Handle()} }
	for _, flag := range []string{"--repair", "--reindex"} {
		if code := d.run(strings.NewReader(""), "doctor", flag); code != exitUnsupported || !strings.Contains(d.err.String(), "does not support repairing") {
			t.Errorf("%s: exit code %d, %s", flag, code, d.err)
		}
	}
	if code := d.run(strings.NewReader(""), "doctor"); code != exitOK {
		t.Errorf("plain: exit code %d, %s", code, d.err)
	}
}

func TestDoctor_opensADatabaseWithADamagedLogOnlyToRepairIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "whole.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.Create(t, st, "s")
	for range 6 {
		if s, err = st.Save(t.Context(), storetest.AddMessage(t, s, "more"), store.Commit{}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "copy.db")
	for _, ext := range []string{"", "-wal"} { // what a crash leaves
		raw, err := os.ReadFile(filepath.Join(dir, "whole.db") + ext)
		if err != nil {
			t.Fatal(err)
		}
		if ext == "-wal" {
			raw[len(raw)/2] ^= 1
		}
		if err := os.WriteFile(path+ext, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	told := newTranscript()
	p := setup.New(&terminal.Console{Err: terminal.NewScreen(told)}, nil, time.Now)
	if _, err := p.Open(t.Context(), setup.StoreURL{Scheme: "sqlite", Path: path}); !errors.Is(err, session.ErrCorrupt) || !strings.Contains(err.Error(), "doctor --repair") {
		t.Errorf("open: %v, want what to do about the damaged log", err)
	}
	p.Repair = true
	repaired, err := p.Open(t.Context(), setup.StoreURL{Scheme: "sqlite", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(told.String(), path+"-wal.damaged") {
		t.Errorf("it does not say what was given up: %s", told)
	}
	if err := repaired.Close(); err != nil {
		t.Error(err)
	}
}

// exposed is a store whose server may lose data.
type exposed struct{ *inmem.Store }

func (exposed) Warnings(context.Context) ([]string, error) { return []string{"fsync is off"}, nil }

func TestDoctor_warnsAndEndsWell(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.open = func() store.Store { return exposed{d.store.Handle()} }
	if code := d.run(strings.NewReader(""), "doctor"); code != exitOK || !strings.Contains(d.out.String(), "warning      fsync is off") {
		t.Errorf("exit code %d\n%s%s", code, d.out, d.err)
	}
	if code := d.run(strings.NewReader(""), "doctor", "--json"); code != exitOK || !strings.Contains(d.out.String(), `"warnings":["fsync is off"]`) {
		t.Errorf("as JSON: exit code %d\n%s%s", code, d.out, d.err)
	}
}

func TestDoctor_ofOneSessionReadsNoOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	storetest.Create(t, d.store, "good")
	patient := &sick{problems: []string{"the head of good is not what its log makes"}}
	d.open = func() store.Store { return patient.visited(d.store.Handle()) }
	if code := d.run(strings.NewReader(""), "doctor", "--session", "good"); code != exitSession ||
		!strings.Contains(d.out.String(), "sessions     1 (1 active)") || !strings.Contains(d.out.String(), "problem      the head of good") {
		t.Errorf("exit code %d\n%s%s", code, d.out, d.err)
	}
}
