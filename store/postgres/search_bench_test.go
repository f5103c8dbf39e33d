package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// writer writes messages of about a kilobyte, in which a few words are common
// and most are rare, as in any language.
type writer struct {
	zipf     *rand.Zipf
	messages int
}

func newWriter() *writer {
	return &writer{zipf: rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.2, 4, 20_000)}
}

// now is later with every message.
func (w *writer) now() time.Time {
	w.messages++
	return noon().Add(time.Duration(w.messages) * time.Second)
}

func (w *writer) text() string {
	words := make([]string, 160)
	for i := range words {
		words[i] = fmt.Sprint("w", w.zipf.Uint64())
	}
	return strings.Join(words, " ")
}

// told stores a session of a user with so many messages.
func (w *writer) told(b *testing.B, st *postgres.Store, id string, messages int) session.Session {
	b.Helper()
	s, err := session.New(session.Identity{ID: id, AgentID: "agent-" + id, UserID: "ann"}, session.Definition{Name: "tester"}, session.Seed{}, noon())
	if err != nil {
		b.Fatal(err)
	}
	for i := range messages {
		s, err = s.WithMessage(session.Message{ID: fmt.Sprint(id, "-", i), Role: session.RoleUser, Content: session.Text(w.text()), CreatedAt: w.now()}, noon())
		if err != nil {
			b.Fatal(err)
		}
	}
	if s, err = st.Create(b.Context(), s, store.Commit{ID: "create", At: noon()}); err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkSearch looks for a word that is in nearly every message, for a rare
// one, and for three at once.
func BenchmarkSearch(b *testing.B) {
	places := []struct {
		name               string
		sessions, messages int
		place              store.Search
	}{
		{"session=10000", 1, 10_000, store.Search{Session: "s0"}},
		{"sessions=1000x20", 1000, 20, store.Search{User: "ann"}},
		{"oneOfSessions=1000x20", 1000, 20, store.Search{Session: "s500"}},
	}
	for _, p := range places {
		b.Run(p.name, func(b *testing.B) {
			url := pgtest.Schema(b)
			st, w := busy(b, url), newWriter()
			for i := range p.sessions {
				w.told(b, st, fmt.Sprint("s", i), p.messages)
			}
			for _, indexed := range []bool{false, true} {
				if indexed {
					began := time.Now()
					st.Index(b.Context())
					b.Logf("indexed %d messages in %s", p.sessions*p.messages, time.Since(began).Round(time.Millisecond))
					pgtest.Exec(b, url, "VACUUM ANALYZE")
				}
				for _, words := range []string{"w0", "w3000", "w10 w100 w1000"} {
					b.Run(fmt.Sprintf("indexed=%t/%s", indexed, strings.ReplaceAll(words, " ", "+")), func(b *testing.B) {
						q := p.place
						q.Words = store.Words(words)
						for b.Loop() {
							if _, err := st.Search(b.Context(), session.DefaultTenant, q); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		})
	}
}

// BenchmarkSave_besideTheIndex saves by turns to a store that never indexes
// and to one that indexes all the time, and compares medians.
func BenchmarkSave_besideTheIndex(b *testing.B) {
	w := newWriter()
	stores := []*postgres.Store{busy(b, pgtest.Schema(b)), eager(b, pgtest.Schema(b))}
	sessions := []session.Session{w.told(b, stores[0], "s", 10), w.told(b, stores[1], "s", 10)}
	took := make([][]time.Duration, 2)
	for n := 0; b.Loop(); n++ {
		text := w.text()
		for i, st := range stores {
			next, err := sessions[i].WithMessage(session.Message{ID: fmt.Sprint("new-", n), Role: session.RoleUser, Content: session.Text(text)}, noon())
			if err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			saved, err := st.Save(b.Context(), next, store.Commit{ID: "c", At: noon()})
			if err != nil {
				b.Fatal(err)
			}
			took[i], sessions[i] = append(took[i], time.Since(began)), saved
		}
	}
	medians := make([]float64, 2)
	for i := range took {
		slices.Sort(took[i])
		medians[i] = float64(took[i][len(took[i])/2].Microseconds())
	}
	b.ReportMetric(medians[0], "µs/save-unindexed")
	b.ReportMetric(medians[1], "µs/save-indexed")
}

// eager is a store that indexes as soon as anything is written.
func eager(b *testing.B, url string) *postgres.Store {
	b.Helper()
	st, err := postgres.OpenEager(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	return closing(b, st)
}
