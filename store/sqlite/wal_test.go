package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// TestOpen_afterATornLogHasEveryCommitBeforeTheTear copies the files of a
// store at work, which is what a crash leaves, cuts the write-ahead log
// anywhere and sometimes follows it with garbage. A flushed log is never cut
// like that, so this is worse than any crash: what lies behind the tear is
// lost. What lies before it, and what was moved to the database, must be there
// to the last commit, and nothing of a commit that is torn.
func TestOpen_afterATornLogHasEveryCommitBeforeTheTear(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, path, sqlite.Config{})
	rewrite(t, st, "PRAGMA wal_autocheckpoint = 0")
	s := create(t, st, "s")
	for range 5 {
		s = save(t, st, said(t, s, fmt.Sprint(s.Version())))
	}
	if err := st.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	moved := s.Version()
	ends := map[int64]int64{} // version → size of the log once it was acknowledged
	for range 15 {
		s = save(t, st, said(t, s, fmt.Sprint(s.Version())))
		ends[s.Version()] = int64(len(read(t, path+"-wal")))
	}
	database, log := read(t, path), read(t, path+"-wal")
	for range 20 {
		cut := random.Int64N(int64(len(log)) + 1)
		torn := append([]byte{}, log[:cut]...)
		for range random.IntN(2) * random.IntN(9000) {
			torn = append(torn, byte(random.Uint32()))
		}
		want := moved
		for version, end := range ends {
			if end <= cut {
				want = max(want, version)
			}
		}
		opensAt(t, database, torn, want, cut)
	}
}

// opensAt checks what is in a database with this log.
func opensAt(t *testing.T, database, log []byte, version, cut int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sessions.db")
	for name, data := range map[string][]byte{path: database, path + "-wal": log} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	st := open(t, path, sqlite.Config{})
	s := load(t, st, "s")
	if s.Version() != version || int64(s.Len()) != version-1 {
		t.Errorf("cut at %d: version %d with %d messages, want version %d with %d", cut, s.Version(), s.Len(), version, version-1)
	}
	save(t, st, said(t, s, "carry on"))
	healthy(t, st)
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestOpen_refusesALogThatLostItsEnd flips bits of the log of a store at work,
// which is what a crash leaves. Whatever lies after the damage was acknowledged.
func TestOpen_refusesALogThatLostItsEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, path, sqlite.Config{})
	rewrite(t, st, "PRAGMA wal_autocheckpoint = 0")
	s := create(t, st, "s")
	var ends []int64
	for range 12 {
		s = save(t, st, said(t, s, fmt.Sprint(s.Version())))
		ends = append(ends, int64(len(read(t, path+"-wal"))))
	}
	database, log := read(t, path), read(t, path+"-wal")
	random := rand.New(rand.NewPCG(11, 7))
	sure := ends[len(ends)-4] // three commits follow, and damaged checksums cost one of them
	for i := range 60 {
		bit := random.Int64N(8 * sure)
		if i < 16 {
			bit = int64(16 * i) // of the header of the log
		}
		copied := filepath.Join(t.TempDir(), "sessions.db")
		flipped := append([]byte{}, log...)
		flipped[bit/8] ^= 1 << (bit % 8)
		for name, data := range map[string][]byte{copied: database, copied + "-wal": flipped} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		st, err := sqlite.Open(t.Context(), copied, sqlite.Config{})
		var damaged *sqlite.DamagedLogError
		if !errors.As(err, &damaged) || !errors.Is(err, session.ErrCorrupt) || damaged.Path != copied+"-wal" || damaged.Commits < 2 {
			t.Errorf("byte %d, bit %d: %v, want DamagedLogError", bit/8, bit%8, err)
			if err == nil {
				_ = st.Close()
			}
			continue
		}
		if i%20 != 0 {
			continue
		}
		st = open(t, copied, sqlite.Config{DropDamaged: true})
		healthy(t, st)
		if !bytes.Equal(read(t, copied+"-wal.damaged"), flipped) {
			t.Error("the damaged log was not kept")
		}
	}
}

func TestOpen_takesALogInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, path, sqlite.Config{})
	s := create(t, st, "s")
	done := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if s, err = st.Save(t.Context(), s, store.Commit{At: noon()}); err == nil && s.Version()%8 == 0 {
				err = st.Checkpoint(t.Context()) // the next commit begins the log anew
			}
		}
		done <- err
	}()
	for range 40 {
		if err := open(t, path, sqlite.Config{}).Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
