package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// prose makes text whose words are as unevenly common as those of a language:
// of 20,000 words a few make most of it.
type prose struct {
	words []string
	next  *rand.Zipf
}

func newProse() prose {
	source := rand.New(rand.NewPCG(1, 2))
	p := prose{words: make([]string, 20_000), next: rand.NewZipf(source, 1.25, 4, 19_999)}
	for i := range p.words {
		var w strings.Builder
		for range 1 + source.IntN(2+i/4_000) { // rarer words are longer
			w.WriteByte("bcdfghklmnprstvw"[source.IntN(16)])
			w.WriteByte("aeiou"[source.IntN(5)])
			w.WriteByte("lmnrst"[source.IntN(6)])
		}
		p.words[i] = w.String()
	}
	return p
}

// text is about a kilobyte.
func (p prose) text() string {
	var b strings.Builder
	for b.Len() < 1_000 {
		b.WriteString(p.words[p.next.Uint64()])
		b.WriteByte(' ')
	}
	return b.String()
}

// talk is a stored session of a user with so many messages.
func talk(b *testing.B, st *sqlite.Store, p prose, number, messages int) {
	b.Helper()
	id, at := fmt.Sprintf("s%d", number), noon().Add(time.Duration(number)*time.Hour)
	s, err := session.New(session.Identity{ID: id, AgentID: "agent-" + id, UserID: "ann"}, session.Definition{Name: "tester"}, session.Seed{}, at)
	if err != nil {
		b.Fatal(err)
	}
	for i := range messages {
		m := session.Message{ID: fmt.Sprintf("%s-%d", id, i), Role: session.RoleUser, Content: session.Text(p.text())}
		if s, err = s.WithMessage(m, at); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := st.Create(b.Context(), s, store.Commit{ID: "c", At: noon()}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSearch looks for words that are rare, common, and as many as a
// sentence has.
func BenchmarkSearch(b *testing.B) {
	p := newProse()
	sentence := store.Words(p.text()[:80])
	for _, size := range []struct{ sessions, messages int }{{1, 10_000}, {1_000, 10}} {
		st := benchStore(b)
		for i := range size.sessions {
			talk(b, st, p, i, size.messages)
		}
		indexAll(b, st)
		for _, q := range []struct {
			name  string
			words []string
		}{{"rare", p.words[9_000:9_001]}, {"common", p.words[:1]}, {"sentence", sentence}} {
			for where, ask := range map[string]store.Search{"session": {Session: "s0"}, "user": {User: "ann"}} {
				ask.Words, ask.Limit = q.words, 5
				b.Run(fmt.Sprintf("sessions=%d/messages=%d/%s/%s", size.sessions, size.messages, where, q.name), func(b *testing.B) {
					for b.Loop() {
						if _, err := st.Search(b.Context(), session.DefaultTenant, ask); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkSearch_unindexed searches as much as may wait for the index.
func BenchmarkSearch_unindexed(b *testing.B) {
	p, st := newProse(), benchStore(b)
	talk(b, st, p, 0, 1_000)
	rewrite(b, st, "UPDATE counters SET value = 0 WHERE name = 'indexed'")
	for b.Loop() {
		if _, err := st.Search(b.Context(), session.DefaultTenant, store.Search{Session: "s0", Words: p.words[:2]}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIndex says how long it takes to index a message of a kilobyte and
// how much that adds to the file.
func BenchmarkIndex(b *testing.B) {
	p, st := newProse(), benchStore(b)
	n := 0
	for b.Loop() {
		if n%1_000 == 0 {
			b.StopTimer()
			talk(b, st, p, n, 1_000)
			b.StartTimer()
		}
		if n%100 == 0 {
			if err := st.Index(b.Context(), 100); err != nil {
				b.Fatal(err)
			}
		}
		n++
	}
	b.StopTimer()
	indexAll(b, st)
	for name, query := range map[string]string{
		"index-bytes/message": "SELECT sum(pgsize) FROM dbstat WHERE name GLOB 'message_words*' OR name = 'passages'",
		"file-bytes/message":  "SELECT sum(pgsize) FROM dbstat",
	} {
		bytes, err := st.Count(b.Context(), query)
		if err != nil {
			b.Fatal(err)
		}
		messages, err := st.Count(b.Context(), "SELECT count(*) FROM changes WHERE kind = 'message_added'")
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(bytes)/float64(messages), name)
	}
}
