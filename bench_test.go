package holdfast_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// stores are those a runtime is measured on.
func stores(b *testing.B) map[string]store.Store {
	b.Helper()
	onDisk, err := file.Open(b.TempDir(), file.Config{})
	if err != nil {
		b.Fatal(err)
	}
	all := map[string]store.Store{"inmem": inmem.New(inmem.Config{}), "file": onDisk}
	b.Cleanup(func() {
		for _, s := range all {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	return all
}

// grown is a session of a runtime with that many messages. Its window shows
// the last few, as a memory policy would have it.
func grown(b *testing.B, rt *holdfast.Runtime, messages int) string {
	b.Helper()
	ctx := context.Background()
	seed := session.Seed{Messages: make([]session.Message, messages)}
	for i := range seed.Messages {
		role := session.RoleUser
		if i%2 == 1 {
			role = session.RoleAssistant
		}
		seed.Messages[i] = session.Message{ID: fmt.Sprint("m", i), Role: role, Content: session.Text(fmt.Sprintf("message %d %01000d", i, i))}
	}
	s, err := rt.Create(ctx, session.Definition{Name: "bench"}, holdfast.WithSeed(seed))
	if err == nil {
		s, err = rt.Execute(ctx, s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 10})
	}
	if err != nil {
		b.Fatal(err)
	}
	return s.ID()
}

func measured(b testing.TB, st store.Store) *holdfast.Runtime {
	b.Helper()
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": scripted.New()}, DefaultModel: "demo"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := rt.Close(); err != nil {
			b.Error(err)
		}
	})
	return rt
}

// A short action through the whole pipeline: one durable commit.
func BenchmarkExecute_metadata(b *testing.B) {
	for name, st := range stores(b) {
		rt := measured(b, st)
		for _, messages := range []int{10, 1000} {
			id := grown(b, rt, messages)
			b.Run(fmt.Sprintf("%s/%d", name, messages), func(b *testing.B) {
				for b.Loop() {
					if _, err := rt.Execute(b.Context(), id, holdfast.WriteMetadata{Key: "k", Value: "v"}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A whole turn with a scripted answer: lease, tail and save.
func BenchmarkExecute_sendMessage(b *testing.B) {
	for name, st := range stores(b) {
		rt := measured(b, st)
		id := grown(b, rt, 10)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := rt.Execute(b.Context(), id, holdfast.SendMessage{Text: "hi"}); err != nil {
					b.Fatal(err)
				}
				if _, err := rt.Execute(b.Context(), id, holdfast.ClearSession{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
