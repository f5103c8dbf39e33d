package holdfast_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// readLogs counts the entries that are read from logs.
type readLogs struct {
	*inmem.Store
	entries atomic.Int64
}

func (s *readLogs) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	entries, err := s.Store.Log(ctx, r, after, limit)
	s.entries.Add(int64(len(entries)))
	return entries, err
}

// add adds messages, some of which are traces.
func add(trace func(i int) bool, n int) holdfast.Action {
	return custom{name: "Add", run: func(_ context.Context, s session.Session) (session.Session, error) {
		var err error
		for i := range n {
			m := session.Message{ID: fmt.Sprintf("m%d-%d", s.Seq(), i), Role: session.RoleAssistant, Content: session.Text(fmt.Sprint("line ", s.Seq())), Trace: trace(i)}
			if s, err = s.WithMessage(m, time.Now()); err != nil {
				return s, err
			}
		}
		return s, nil
	}}
}

func TestHistory_readsAPage(t *testing.T) {
	t.Parallel()
	st := &readLogs{Store: inmem.New(inmem.Config{})}
	h := open(t, func(c *holdfast.Config) { c.Store = st })
	s := h.create()
	for range 20 {
		h.do(s.ID(), add(func(i int) bool { return i%2 == 1 }, 100))
	}
	h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 5})
	m := h.memory(s.ID())
	for name, o := range map[string]memory.HistoryOptions{
		"newest": {}, "oldest": {Order: memory.Oldest}, "skipping": {Offset: 20}, "before": {BeforeSeq: 1000}, "after": {AfterSeq: 700, Order: memory.Oldest},
	} {
		st.entries.Store(0)
		page, err := m.History(t.Context(), o)
		if err != nil || len(page.Messages) != 10 || page.Total != 1000 || page.Next == 0 {
			t.Errorf("%s: %d messages of %d, next %d, %v", name, len(page.Messages), page.Total, page.Next, err)
		}
		if n := st.entries.Load(); n == 0 || n > 150 {
			t.Errorf("%s: %d entries of the log were read for ten messages", name, n)
		}
	}
}

// Whatever happened to a session, a page of its history is a page of its whole
// transcript.
func TestHistory_isAPageOfTheTranscript(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	h := open(t, nil)
	id := h.create().ID()
	h.do(id, add(func(i int) bool { return i%3 == 0 }, 30))
	h.do(id, holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 1})
	if s, err := h.Get(t.Context(), id); err != nil || !s.Partial() {
		t.Fatalf("a pruned session holds all of its transcript (%v)", err)
	}
	versions := int64(3)
	for range 60 {
		switch n := r.IntN(10); {
		case n < 5:
			h.do(id, add(func(int) bool { return r.IntN(3) == 0 }, 1+r.IntN(12)))
		case n < 7:
			h.do(id, holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 1 + r.IntN(3)})
		case n == 7:
			h.do(id, holdfast.RewindSession{To: 1 + r.Int64N(versions)})
		case n == 8:
			fork, err := h.Fork(t.Context(), id, holdfast.At(1+r.Int64N(versions)))
			if err != nil {
				t.Fatal(err)
			}
			id = fork.ID()
		case r.IntN(3) == 0:
			h.do(id, holdfast.ClearSession{})
		}
		whole, err := h.Get(t.Context(), id, holdfast.Whole())
		if err != nil {
			t.Fatal(err)
		}
		versions = whole.Version()
		for range 5 {
			o := memory.HistoryOptions{Limit: 1 + r.IntN(8), IncludeTrace: r.IntN(2) == 0, Order: []memory.Order{memory.Newest, memory.Oldest}[r.IntN(2)]}
			switch r.IntN(3) {
			case 0:
				o.Offset = r.IntN(20)
			case 1:
				o.AfterSeq, o.BeforeSeq = r.Int64N(whole.Seq()+2), r.Int64N(whole.Seq()+2)
			}
			page, err := h.memory(id).History(t.Context(), o)
			if want := o.Cut(whole.Messages()); err != nil || !reflect.DeepEqual(page, want) {
				t.Fatalf("%+v: %d messages of %d, next %d (%v); want %d of %d, next %d", o, len(page.Messages), page.Total, page.Next, err,
					len(want.Messages), want.Total, want.Next)
			}
		}
	}
}
