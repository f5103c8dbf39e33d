package holdfast_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// Twenty messages are sent to one session at once. Each is answered before the
// next is asked.
func BenchmarkTurn_atOnce(b *testing.B) {
	for name, st := range agentStores(b) {
		rt := measured(b, st)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s, err := rt.Create(b.Context(), session.Definition{Name: "bench"})
				if err != nil {
					b.Fatal(err)
				}
				var group sync.WaitGroup
				for i := range 20 {
					group.Go(func() {
						if _, err := rt.Execute(b.Context(), s.ID(), holdfast.SendMessage{Text: fmt.Sprint("question ", i)}); err != nil {
							b.Error(err)
						}
					})
				}
				group.Wait()
				if s, err = rt.Get(b.Context(), s.ID()); err != nil || s.Len() != 40 {
					b.Fatalf("%d messages, %v", s.Len(), err)
				}
			}
		})
	}
}

// A fork of a session that lies a thousand forks deep, to one of a session that is
// no fork.
func BenchmarkFork_deep(b *testing.B) {
	for name, st := range agentStores(b) {
		rt := measured(b, st)
		b.Run(name, func(b *testing.B) {
			fork := func(id string) string {
				s, err := rt.Fork(b.Context(), id)
				if err != nil {
					b.Fatal(err)
				}
				return s.ID()
			}
			s, err := rt.Create(b.Context(), session.Definition{Name: "bench"}, holdfast.WithSeed(seedOf(10)))
			if err != nil {
				b.Fatal(err)
			}
			deep := s.ID()
			for range 999 {
				deep = fork(deep)
			}
			compare(b, "flat", func() func() { return func() { fork(s.ID()) } }, "deep", func() func() { return func() { fork(deep) } })
		})
	}
}
