package storetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// The stores of this file mistake meanings, each in one way.

func vectorMutants() map[string]mutant {
	asks := func(alter func(*store.Near)) func(Full) store.Store {
		return func(s Full) store.Store { return asksNear{s, alter} }
	}
	lists := func(alter func([]store.Unembedded) []store.Unembedded) func(Full) store.Store {
		return func(s Full) store.Store { return listsElse{s, alter} }
	}
	finds := func(alter func([]store.Passage) []store.Passage) func(Full) store.Store {
		return func(s Full) store.Store { return findsNear{s, alter} }
	}
	return map[string]mutant{
		"one embedder for all": {func(s Full) store.Store { return oneEmbedder{s} }, []string{
			"vectors/listsWhatHasNone", "vectors/embeddersNeverMeet", "vectors/nilIsNeverListedAndNeverFound"}},
		"waiting is a queue": {func(s Full) store.Store { return &listsOnce{Full: s, listed: map[string]bool{}} }, []string{
			"vectors/listsWhatHasNone", "vectors/listsWhatLiesBehindMuchWithoutText", "vectors/survivesReopening"}},
		"waiting never shrinks": {func(s Full) store.Store { return &listsAlways{Full: s} }, []string{"vectors/listsNothingThatIsGone"}},
		"waiting twice": {lists(func(l []store.Unembedded) []store.Unembedded { return append(l, l...) }), []string{
			"vectors/listsWhatHasNone", "vectors/listsTheSharedOnce", "vectors/listsNoMoreThanAskedFor"}},
		"entries never wait": {lists(func(l []store.Unembedded) []store.Unembedded {
			return slices.DeleteFunc(l, func(u store.Unembedded) bool { return slices.Contains([]byte(u.Text), '\n') })
		}), []string{"vectors/listsWhatHasNone", "vectors/ofAnEarlierVersionAreDropped"}},
		"pages without end":   {func(s Full) store.Store { return noPages{s} }, []string{"vectors/listsNoMoreThanAskedFor"}},
		"nil tried again":     {func(s Full) store.Store { return dropsNil{s} }, []string{"vectors/nilIsNeverListedAndNeverFound"}},
		"nil is somewhere":    {func(s Full) store.Store { return fillsNil{s} }, []string{"vectors/nilIsNeverListedAndNeverFound"}},
		"first vector stays":  {func(s Full) store.Store { return &firstStays{Full: s, given: map[string]bool{}} }, []string{"vectors/embeddedTwiceIsEmbeddedOnce"}},
		"good of bad is kept": {func(s Full) store.Store { return oneByOne{s} }, []string{"vectors/badRequestsAreRefused"}},
		"found for ever": {func(s Full) store.Store { return &stuckNear{Full: s, found: map[string][]store.Passage{}} }, []string{
			"vectors/ofAnEarlierVersionAreDropped", "vectors/goWithTheirPassage"}},
		"clears forgotten": {asks(func(q *store.Near) { q.Cleared = true }), []string{"vectors/looksWhereASearchWould"}},
		"traces shown":     {asks(func(q *store.Near) { q.Trace = true }), []string{"vectors/looksWhereASearchWould"}},
		"anything is near": {asks(func(q *store.Near) { q.Least = math.Min(q.Least, 0) }), []string{"vectors/asksForTheLeast"}},
		"zero is not near": {asks(func(q *store.Near) { q.Least = math.Max(q.Least, 0.001) }), []string{
			"vectors/asksForTheLeast", "vectors/findsTheNearestFirst"}},
		"dimensions cut": {asks(func(q *store.Near) { q.Vector = vectorTo(q.Vector[:min(2, len(q.Vector))]...) }), []string{"vectors/otherDimensionsAreNeverNear"}},
		"limit in sight": {func(s Full) store.Store { return limitsFirst{s} }, []string{"vectors/findsTheNearestFirst"}},
		"ties by age": {finds(func(l []store.Passage) []store.Passage {
			slices.SortFunc(l, func(a, b store.Passage) int {
				a.At, b.At = b.At, a.At
				return a.Compare(b)
			})
			return l
		}), []string{"vectors/findsTheNearestFirst"}},
		"coarse scores": {finds(func(l []store.Passage) []store.Passage {
			for i := range l {
				l[i].Score = math.Round(l[i].Score*100) / 100
			}
			return l
		}), []string{"vectors/scoresHardlyDifferFromTheCosine"}},
		"meanings mixed":     {func(s Full) store.Store { return nearTenant{s} }, []string{"vectors/lookAlikeTenantsNeverMeet"}},
		"meanings for ended": {func(s Full) store.Store { return deafNear{s} }, []string{"vectors/refusesWhenClosedOrEnded"}},
	}
}

type asksNear struct {
	Full
	alter func(*store.Near)
}

func (m asksNear) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	m.alter(&q)
	return m.Full.Nearest(ctx, tenant, q)
}

type findsNear struct {
	Full
	alter func([]store.Passage) []store.Passage
}

func (m findsNear) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	found, err := m.Full.Nearest(ctx, tenant, q)
	return m.alter(found), err
}

type listsElse struct {
	Full
	alter func([]store.Unembedded) []store.Unembedded
}

func (m listsElse) Unembedded(ctx context.Context, embedder string, limit int) ([]store.Unembedded, error) {
	list, err := m.Full.Unembedded(ctx, embedder, limit)
	return m.alter(list), err
}

type oneEmbedder struct{ Full }

func (m oneEmbedder) Unembedded(ctx context.Context, _ string, limit int) ([]store.Unembedded, error) {
	return m.Full.Unembedded(ctx, "one", limit)
}

func (m oneEmbedder) Embedded(ctx context.Context, _ string, vectors []store.Embedding) error {
	return m.Full.Embedded(ctx, "one", vectors)
}

func (m oneEmbedder) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	q.Embedder = "one"
	return m.Full.Nearest(ctx, tenant, q)
}

// listsOnce forgets what it has handed out.
type listsOnce struct {
	Full
	mu     sync.Mutex
	listed map[string]bool
}

func (m *listsOnce) Unembedded(ctx context.Context, embedder string, limit int) ([]store.Unembedded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, err := m.Full.Unembedded(ctx, embedder, limit)
	return slices.DeleteFunc(list, func(u store.Unembedded) bool {
		before := m.listed[embedder+u.Token]
		m.listed[embedder+u.Token] = true
		return before
	}), err
}

// listsAlways lists what it has listed until it is embedded, gone or not.
type listsAlways struct {
	Full
	mu   sync.Mutex
	kept []store.Unembedded
}

func (m *listsAlways) Unembedded(ctx context.Context, embedder string, limit int) ([]store.Unembedded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list, err := m.Full.Unembedded(ctx, embedder, limit)
	for _, u := range list {
		if !slices.Contains(m.kept, u) {
			m.kept = append(m.kept, u)
		}
	}
	return slices.Clone(m.kept), err
}

func (m *listsAlways) Embedded(ctx context.Context, embedder string, vectors []store.Embedding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = slices.DeleteFunc(m.kept, func(u store.Unembedded) bool {
		return slices.ContainsFunc(vectors, func(e store.Embedding) bool { return e.Token == u.Token })
	})
	return m.Full.Embedded(ctx, embedder, vectors)
}

type noPages struct{ Full }

func (m noPages) Unembedded(ctx context.Context, embedder string, limit int) ([]store.Unembedded, error) {
	return m.Full.Unembedded(ctx, embedder, max(limit, 1000))
}

type dropsNil struct{ Full }

func (m dropsNil) Embedded(ctx context.Context, embedder string, vectors []store.Embedding) error {
	return m.Full.Embedded(ctx, embedder, slices.DeleteFunc(slices.Clone(vectors), func(e store.Embedding) bool { return e.Vector == nil }))
}

type fillsNil struct{ Full }

func (m fillsNil) Embedded(ctx context.Context, embedder string, vectors []store.Embedding) error {
	vectors = slices.Clone(vectors)
	for i := range vectors {
		if vectors[i].Vector == nil {
			vectors[i].Vector = vectorTo(1, 0, 0, 0)
		}
	}
	return m.Full.Embedded(ctx, embedder, vectors)
}

type firstStays struct {
	Full
	mu    sync.Mutex
	given map[string]bool
}

func (m *firstStays) Embedded(ctx context.Context, embedder string, vectors []store.Embedding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Full.Embedded(ctx, embedder, slices.DeleteFunc(slices.Clone(vectors), func(e store.Embedding) bool {
		before := m.given[embedder+e.Token]
		m.given[embedder+e.Token] = true
		return before
	}))
}

type oneByOne struct{ Full }

func (m oneByOne) Embedded(ctx context.Context, embedder string, vectors []store.Embedding) error {
	var errs []error
	for _, e := range vectors {
		errs = append(errs, m.Full.Embedded(ctx, embedder, []store.Embedding{e}))
	}
	return errors.Join(errs...)
}

// stuckNear finds for ever what it found once.
type stuckNear struct {
	Full
	mu    sync.Mutex
	found map[string][]store.Passage
}

func (m *stuckNear) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.Full.Nearest(ctx, tenant, q)
	key := tenant + q.User + q.Session
	if len(found) >= len(m.found[key]) {
		m.found[key] = found
	}
	return m.found[key], err
}

// limitsFirst takes the newest before it looks which are near.
type limitsFirst struct{ Full }

func (m limitsFirst) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	limit := q.Limit
	q.Limit = 1000
	found, err := m.Full.Nearest(ctx, tenant, q)
	slices.SortFunc(found, func(a, b store.Passage) int { return b.At.Compare(a.At) })
	if limit > 0 {
		found = found[:min(limit, len(found))]
	}
	slices.SortFunc(found, store.Passage.Compare)
	return found, err
}

type nearTenant struct{ Full }

func (m nearTenant) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	found, err := m.Full.Nearest(ctx, tenant, q)
	if err == nil && len(found) == 0 {
		return m.Full.Nearest(ctx, session.DefaultTenant, q)
	}
	return found, err
}

type deafNear struct{ Full }

func (m deafNear) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	return m.Full.Nearest(context.WithoutCancel(ctx), tenant, q)
}
