package holdfast_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// A session with a thousand answers of 100 KB, 100 MB in all, with a window of
// ten messages. What a call allocates bounds what it holds at the same time:
// none may hold all answers.
func BenchmarkLongAnswers(b *testing.B) {
	const answers, size, limit = 1000, 100 << 10, 10
	st, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "sessions.db"), sqlite.Config{Synchronous: sqlite.Normal})
	if err != nil {
		b.Fatal(err)
	}
	answer := session.Text(strings.Repeat("0123456789", size/10))
	rt, err := holdfast.New(holdfast.Config{Store: st, DefaultModel: "demo", Models: llm.Map{"demo": modelFunc(func(context.Context, llm.Request) (llm.Response, error) {
		return llm.Response{Content: answer}, nil
	})}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := rt.Close(); err != nil {
			b.Error(err)
		}
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	most := limit
	s, err := rt.Create(b.Context(), session.Definition{Name: "bench", Memory: &session.MemoryPolicy{Strategy: session.PruneSliding, Limit: &most}})
	for range answers {
		if err == nil {
			s, err = rt.Execute(b.Context(), s.ID(), holdfast.SendMessage{Text: "more"})
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"list": func() error {
			_, err := rt.List(b.Context(), store.Query{})
			return err
		},
		"get": func() error {
			_, err := rt.Get(b.Context(), s.ID())
			return err
		},
		"send": func() error {
			_, err := rt.Execute(b.Context(), s.ID(), holdfast.SendMessage{Text: "more"})
			return err
		},
		"follow": func() error { // the last records, as a view that comes back reads them
			info, err := rt.Get(b.Context(), s.ID())
			n := 0
			for _, e := range rt.Follow(b.Context(), s.ID(), info.Seq()-limit) {
				if n++; e != nil || n == limit {
					return e
				}
			}
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
