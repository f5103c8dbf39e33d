package inmem_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

var histories = []int{10, 1_000, 10_000}

// longSession is a stored session with so many messages, the last ten of them
// in its window.
func longSession(b *testing.B, messages int) (*inmem.Store, session.Session) {
	b.Helper()
	st := inmem.New(inmem.Config{})
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s, err := session.New(session.Identity{ID: "long", AgentID: "agent"}, session.Definition{Name: "bench", SystemPrompt: "Be short."}, session.Seed{}, at)
	if err != nil {
		b.Fatal(err)
	}
	for i := range messages {
		if s, err = s.WithMessage(message(i), at); err != nil {
			b.Fatal(err)
		}
	}
	if s, err = s.With(at, session.WindowMoved{Strategy: session.PruneSliding, To: s.Message(max(0, messages-10)).Seq}); err != nil {
		b.Fatal(err)
	}
	if _, err = st.Create(b.Context(), s, store.Commit{ID: "create", At: at}); err != nil {
		b.Fatal(err)
	}
	if s, err = st.Load(b.Context(), store.RefOf(s), false); err != nil {
		b.Fatal(err)
	}
	return st, s
}

func message(i int) session.Message {
	return session.Message{ID: fmt.Sprintf("m%d", i), Role: session.RoleUser, Content: session.Text("a message of ordinary length, as people write them")}
}

func benchSave(b *testing.B, change func(i int) session.Change) {
	for _, n := range histories {
		b.Run(fmt.Sprintf("history=%d", n), func(b *testing.B) {
			st, first := longSession(b, n)
			s := first
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				next, err := s.With(s.Info().UpdatedAt, change(i))
				if err != nil {
					b.Fatal(err)
				}
				if s, err = st.Save(b.Context(), next, store.Commit{ID: "c"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSave_metadata(b *testing.B) {
	benchSave(b, func(i int) session.Change {
		return session.MetadataWritten{Key: "key", Value: json.RawMessage(fmt.Sprint(i))}
	})
}

func BenchmarkSave_message(b *testing.B) {
	benchSave(b, func(i int) session.Change { return session.MessageAdded{Message: message(1_000_000 + i)} })
}

func BenchmarkLoad_window(b *testing.B) {
	for _, n := range histories {
		b.Run(fmt.Sprintf("history=%d", n), func(b *testing.B) {
			st, s := longSession(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := st.Load(b.Context(), store.RefOf(s), false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFork(b *testing.B) {
	for _, n := range histories {
		b.Run(fmt.Sprintf("history=%d", n), func(b *testing.B) {
			st, s := longSession(b, n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				f, err := s.Fork(fmt.Sprintf("fork-%d", i), fmt.Sprintf("agent-%d", i), s.Info().UpdatedAt)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := st.Fork(b.Context(), f, store.Commit{ID: "fork"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
