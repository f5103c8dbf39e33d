package sqlite_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// subjects make vectors as real texts have them: a few subjects are talked about
// much and most of them little; subjects belong to fields; within a subject the
// texts differ in some directions more than in others.
type subjects struct {
	all        []subject
	dimensions int
}

type subject struct {
	centre []float32
	ways   [][]float32 // directions in which its texts differ
}

func newSubjects(dimensions int) subjects {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same numbers each time
	fields := make([][]float32, 40)
	for i := range fields {
		fields[i] = scaled(noise(random, dimensions), 1)
	}
	s := subjects{all: make([]subject, 1_000), dimensions: dimensions}
	for i := range s.all {
		s.all[i].centre = scaled(plus(scaled(noise(random, dimensions), 1), fields[i%len(fields)]), 1)
		for range 24 {
			s.all[i].ways = append(s.all[i].ways, scaled(noise(random, dimensions), 1))
		}
	}
	return s
}

// vector is the one with a number, always the same.
func (s subjects) vector(n int) []float32 {
	random := rand.New(rand.NewPCG(3, uint64(n))) //nolint:gosec // the same numbers each time
	about := s.all[int(float64(len(s.all))*math.Pow(random.Float64(), 2))]
	v := slices.Clone(about.centre)
	for i, way := range about.ways {
		v = plus(v, scaled(slices.Clone(way), 0.5*random.NormFloat64()/math.Sqrt(float64(1+i))))
	}
	return scaled(plus(v, scaled(noise(random, s.dimensions), 0.25)), 1)
}

func noise(random *rand.Rand, dimensions int) []float32 {
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(random.NormFloat64())
	}
	return v
}

func plus(a, b []float32) []float32 {
	for i := range a {
		a[i] += b[i]
	}
	return a
}

// scaled gives a vector a length.
func scaled(v []float32, length float64) []float32 {
	square := 0.0
	for _, x := range v {
		square += float64(x) * float64(x)
	}
	by := float32(length / math.Sqrt(square))
	for i := range v {
		v[i] *= by
	}
	return v
}

// BenchmarkNearest searches by meaning in everything a user said, and says how
// many of the ten nearest are found. HOLDFAST_BENCH_PASSAGES is how many there
// are at most.
func BenchmarkNearest(b *testing.B) {
	const queries, perSession = 20, 1_000
	for _, size := range []int{1_000, 10_000, 100_000, 1_000_000} {
		if most, _ := strconv.Atoi(os.Getenv("HOLDFAST_BENCH_PASSAGES")); size > max(most, 10_000) {
			continue
		}
		made := newSubjects(512)
		st := open(b, filepath.Join(b.TempDir(), "sessions.db"), sqlite.Config{Synchronous: sqlite.Normal})
		began := time.Now()
		n := 0
		for i := range size / perSession {
			s, err := session.New(session.Identity{ID: fmt.Sprint("s", i), AgentID: fmt.Sprint("a", i), UserID: "ann"}, session.Definition{Name: "tester"}, session.Seed{}, noon())
			if err != nil {
				b.Fatal(err)
			}
			for range perSession {
				s = said(b, s, fmt.Sprint(n))
				n++
			}
			if _, err := st.Create(b.Context(), s, store.Commit{ID: "c"}); err != nil {
				b.Fatal(err)
			}
			embed := func(text string) []float32 {
				number, _ := strconv.Atoi(text)
				return made.vector(number)
			}
			if _, err := embedPage(b.Context(), st, perSession, embed); err != nil {
				b.Fatal(err)
			}
		}
		b.Logf("%d passages are written after %v", size, time.Since(began).Round(time.Second))
		if err := st.BuildCells(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.Logf("their index is built after %v", time.Since(began).Round(time.Second))
		nearest := exactNearest(made, size, queries)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			found, asked := 0, 0
			for b.Loop() {
				q := store.Near{Search: store.Search{User: "ann", Limit: 50}, Embedder: maker, Vector: made.vector(-1 - asked%queries)}
				passages, err := st.Nearest(b.Context(), session.DefaultTenant, q)
				if err != nil {
					b.Fatal(err)
				}
				for _, p := range passages[:10] {
					if slices.Contains(nearest[asked%queries], p.Text) {
						found++
					}
				}
				asked++
			}
			b.ReportMetric(float64(found)/float64(10*asked), "recall@10")
		})
	}
}

// exactNearest are the ten nearest texts of each query, by comparing all.
func exactNearest(made subjects, size, queries int) [][]string {
	best := make([]*store.Nearest, queries)
	asked := make([][]float32, queries)
	for i := range best {
		asked[i] = made.vector(-1 - i)
		best[i] = store.Near{Search: store.Search{Limit: 10}}.Nearest()
	}
	for n := range size {
		packed := store.Pack(made.vector(n))
		for i := range best {
			if score, _, _ := packed.Score(asked[i]); best[i].Admits(score) {
				best[i].Add(store.Passage{Score: score, Text: fmt.Sprint(n)})
			}
		}
	}
	texts := make([][]string, queries)
	for i := range best {
		for _, p := range best[i].Best() {
			texts[i] = append(texts[i], p.Text)
		}
	}
	return texts
}
