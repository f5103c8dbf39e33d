package holdfast_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/benchmark"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// agentStores are those an agent's turns are measured on.
func agentStores(b *testing.B) map[string]store.Store {
	b.Helper()
	onDisk, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "sessions.db"), sqlite.Config{})
	if err != nil {
		b.Fatal(err)
	}
	all := map[string]store.Store{"inmem": inmem.New(inmem.Config{}), "sqlite": onDisk}
	b.Cleanup(func() {
		for _, s := range all {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	return all
}

// settled has a store do what it would do in a quiet moment: of a session that
// grew over days nothing is left to be indexed.
func settled(b *testing.B, st store.Store) {
	b.Helper()
	if doctor, ok := st.(store.Doctors); ok {
		if _, err := doctor.Reindex(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// seedOf is a conversation of so many turns of 1 kB.
func seedOf(turns int) session.Seed {
	seed := session.Seed{Messages: make([]session.Message, 2*turns)}
	for i := range seed.Messages {
		seed.Messages[i] = session.Message{ID: fmt.Sprint("m", i), Role: session.RoleUser, Content: session.Text(fmt.Sprintf("message %d %0500d", i, i))}
		if i%2 == 1 {
			seed.Messages[i].Role = session.RoleAssistant
		}
	}
	return seed
}

// windowed is a session of so many turns of 1 kB with a window of 20 groups.
func windowed(b testing.TB, rt *holdfast.Runtime, turns int) string {
	b.Helper()
	limit := 20
	def := session.Definition{Name: "bench", Memory: &session.MemoryPolicy{Strategy: session.PruneSliding, Limit: &limit}}
	s, err := rt.Create(b.Context(), def, holdfast.WithSeed(seedOf(turns)))
	if err == nil {
		s, err = rt.Execute(b.Context(), s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: limit})
	}
	if err != nil {
		b.Fatal(err)
	}
	return s.ID()
}

func noLease(b testing.TB, rt *holdfast.Runtime, id string) {
	b.Helper()
	if _, err := rt.Execute(b.Context(), id, holdfast.SendMessage{Text: "Do I need a coat in Oslo?"}); err != nil {
		b.Fatal(err)
	}
}

// A turn with an answer that takes no time: what the runtime and the store
// add to it, beginning and end of a long session. Bytes and allocations.
func BenchmarkTurn(b *testing.B) {
	for name, st := range agentStores(b) {
		rt := measured(b, st)
		for _, turns := range []int{10, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", name, turns), func(b *testing.B) {
				id := windowed(b, rt, turns)
				settled(b, st)
				measureTurns(b, rt, id)
			})
		}
	}
}

// measureTurns also reports how long the processor worked for a turn.
func measureTurns(b *testing.B, rt *holdfast.Runtime, id string) {
	b.Helper()
	b.ReportAllocs()
	before, err := benchmark.ProcessorTime()
	for b.Loop() {
		noLease(b, rt, id)
	}
	if used, after := benchmark.ProcessorTime(); err == nil && after == nil {
		b.ReportMetric(float64((used-before).Microseconds())/float64(b.N), "processor-µs/op")
	}
}

// A turn of a session of which nothing was pruned: the whole transcript is sent. It
// takes a while to write the longest: -short leaves it out.
func BenchmarkTurn_unpruned(b *testing.B) {
	for name, st := range agentStores(b) {
		rt := measured(b, st)
		for _, turns := range []int{10, 1_000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", name, turns), func(b *testing.B) {
				if turns > 1_000 && testing.Short() {
					b.Skip("writes 100,000 messages")
				}
				s, err := rt.Create(b.Context(), session.Definition{Name: "bench"}, holdfast.WithSeed(seedOf(turns)))
				if err != nil {
					b.Fatal(err)
				}
				measureTurns(b, rt, s.ID())
			})
		}
	}
}

// TestTurn_warm counts what turns allocate on a store that keeps sessions in
// memory and on one that does not. On a warm session nothing is decoded again,
// and a turn late in a pruned session costs what an early one costs.
func TestTurn_warm(t *testing.T) {
	measure := func(rt *holdfast.Runtime, id string) (mallocs, bytes uint64) {
		for range 3 {
			noLease(t, rt, id)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const turns = 10
		for range turns {
			noLease(t, rt, id)
		}
		runtime.ReadMemStats(&after)
		return (after.Mallocs - before.Mallocs) / turns, (after.TotalAlloc - before.TotalAlloc) / turns
	}
	var whole, pruned [2]uint64
	for i, warm := range []int64{-1, 0} {
		st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{WarmBytes: warm})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
		rt := measured(t, st)
		s, err := rt.Create(t.Context(), session.Definition{Name: "bench"})
		if err != nil {
			t.Fatal(err)
		}
		whole[i], _ = measure(rt, s.ID())
		var bytes uint64
		pruned[i], bytes = measure(rt, windowed(t, rt, 10))
		if warm < 0 {
			continue
		}
		late, lateBytes := measure(rt, windowed(t, rt, 1_000))
		t.Logf("a turn of a warm, pruned session: %d allocations and %d kB, after 1,000 turns %d and %d kB", pruned[i], bytes>>10, late, lateBytes>>10)
		if late*4 > pruned[i]*5 || lateBytes*4 > bytes*5 {
			t.Errorf("after 1,000 turns it is more than a quarter dearer")
		}
		if bytes > 200_000 {
			t.Errorf("it allocates %d bytes, want at most 200,000", bytes)
		}
	}
	for name, mallocs := range map[string][2]uint64{"whole": whole, "pruned": pruned} {
		cold, warm := mallocs[0], mallocs[1]
		t.Logf("allocations of a turn of a %s session: %d cold, %d warm", name, cold, warm)
		if warm*2 > cold {
			t.Errorf("a turn of a warm %s session makes %d allocations, of one that is read each time %d; want at most half", name, warm, cold)
		}
	}
}

// The same, in turns, so that what disturbs one disturbs the other: the ratio
// of the medians.
func BenchmarkTurn_late(b *testing.B) {
	for name, st := range agentStores(b) {
		rt := measured(b, st)
		b.Run(name, func(b *testing.B) {
			late := windowed(b, rt, 10_000)
			settled(b, st)
			early, rounds := "", 0
			compare(b, "early", func() func() {
				if rounds%100 == 0 { // before it is late
					early = windowed(b, rt, 10)
				}
				rounds++
				return func() { noLease(b, rt, early) }
			}, "late", func() func() {
				return func() { noLease(b, rt, late) }
			})
		})
	}
}

// compare measures two things in an order that is drawn anew for each round,
// and reports the median of the second, and how many times that of the first
// it is. Each is prepared anew, which is not measured.
func compare(b *testing.B, first string, prepareFirst func() func(), second string, prepareSecond func() func()) {
	b.Helper()
	prepare := [2]func() func(){prepareFirst, prepareSecond}
	var took [2][]time.Duration
	for b.Loop() {
		order := rand.Perm(2)
		for _, i := range order {
			run := prepare[i]()
			began := time.Now()
			run()
			took[i] = append(took[i], time.Since(began))
		}
	}
	var median [2]time.Duration
	for i := range took {
		slices.Sort(took[i])
		median[i] = took[i][len(took[i])/2]
	}
	b.ReportMetric(float64(median[0].Microseconds()), "µs-"+first)
	b.ReportMetric(float64(median[1].Microseconds()), "µs-"+second)
	b.ReportMetric(float64(median[1])/float64(median[0]), "ratio")
}

// awaitVectorIndex waits until the store in a file has an index of vectors.
func awaitVectorIndex(b *testing.B, path string) {
	b.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		b.Fatal(err)
	}
	for ready := 0; ready == 0 && err == nil; time.Sleep(100 * time.Millisecond) {
		err = db.QueryRowContext(b.Context(), "SELECT count(*) FROM vector_places WHERE ready = 1").Scan(&ready)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		b.Fatal(err)
	}
}

// directions embeds a text as the direction its words point to together.
type directions struct{}

func (directions) Name() string { return "directions/128" }

func (directions) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		v := make([]float32, 128)
		for _, word := range strings.Fields(text) {
			var seed uint64
			for _, c := range []byte(word) {
				seed = seed*31 + uint64(c)
			}
			r := rand.New(rand.NewPCG(seed, 1))
			for k := range v {
				v[k] += float32(r.NormFloat64())
			}
		}
		vectors[i] = unit(v)
	}
	return vectors, nil
}

func unit(v []float32) []float32 {
	length := 0.0
	for _, x := range v {
		length += float64(x) * float64(x)
	}
	for k := range v {
		v[k] /= float32(math.Sqrt(max(length, 1e-9)))
	}
	return v
}

// remembered is the memory of a session with so many passages of a dozen
// words, five of which hold what is asked for.
func remembered(b *testing.B, rt *holdfast.Runtime, passages int) memory.Handle {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	seed := session.Seed{Messages: make([]session.Message, passages)}
	for i := range seed.Messages {
		words := make([]string, 12)
		for k := range words {
			words[k] = fmt.Sprintf("word%d", int(r.ExpFloat64()*300)) // a few are everywhere, most are rare
		}
		if i%(passages/5) == 0 {
			words[3], words[7] = "lighthouse", "keeper"
		}
		seed.Messages[i] = session.Message{ID: fmt.Sprint("m", i), Role: session.RoleUser, Content: session.Text(strings.Join(words, " "))}
	}
	s, err := rt.Create(b.Context(), session.Definition{Name: "bench"}, holdfast.WithSeed(seed))
	if err == nil {
		_, err = rt.Execute(b.Context(), s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 20})
	}
	if err != nil {
		b.Fatal(err)
	}
	m, err := rt.Memory(b.Context(), s.ID())
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// Five passages among many, against five among few. It takes a while to get
// there: -short leaves it out.
func BenchmarkRecall(b *testing.B) {
	if testing.Short() {
		b.Skip("writes 100,000 passages")
	}
	path := filepath.Join(b.TempDir(), "sessions.db")
	st, err := sqlite.Open(b.Context(), path, sqlite.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": scripted.New()}, DefaultModel: "demo", Embedder: directions{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := rt.Close(); err != nil {
			b.Error(err)
		}
	})
	few, many := remembered(b, rt, 1_000), remembered(b, rt, 100_000)
	settled(b, st)
	if _, err := rt.Embed(b.Context()); err != nil {
		b.Fatal(err)
	}
	zero, half := 0.0, 0.5
	if _, err := many.Recall(b.Context(), "lighthouse keeper", memory.RecallOptions{}); err != nil { // it asks for the index of vectors
		b.Fatal(err)
	}
	awaitVectorIndex(b, path)
	for _, c := range []struct {
		name, query string
		o           memory.RecallOptions
	}{
		{"words", "lighthouse keeper", memory.RecallOptions{Mode: memory.Keyword}},
		{"commonWords", "word1 word2 lighthouse keeper", memory.RecallOptions{Mode: memory.Keyword, Threshold: &half}},
		{"vectors", "lighthouse keeper", memory.RecallOptions{Mode: memory.Semantic, Threshold: &zero}},
		{"hybrid", "lighthouse keeper", memory.RecallOptions{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ask := func(m memory.Handle) func() func() {
				return func() func() {
					return func() {
						if hits, err := m.Recall(b.Context(), c.query, c.o); err != nil || len(hits) == 0 {
							b.Fatalf("%d hits, %v", len(hits), err)
						}
					}
				}
			}
			compare(b, "1k", ask(few), "100k", ask(many))
		})
	}
}
