package sqlite_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// A read whose context ends at any moment leaves its connection fit for the
// next reader.
func TestRead_endedContextLeavesNoTransactionBehind(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	now := time.Now()
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, session.Definition{Name: "tester"}, session.Seed{}, now)
	if err == nil {
		s, err = st.Create(t.Context(), s, store.Commit{ID: "c", Action: "create", At: now})
	}
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				ctx, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(time.Duration(i%100)*time.Microsecond, cancel)
				_, err := st.Inbox(ctx, store.RefOf(s))
				timer.Stop()
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				cancel()
				if _, err := st.Info(t.Context(), store.RefOf(s)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
