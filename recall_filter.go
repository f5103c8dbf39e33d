package holdfast

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/store"
)

// filters reports whether the options leave out something that the stores find.
func (r *recallRun) filters() bool {
	return r.options.Prefix != "" || !r.options.After.IsZero() || !r.options.Before.IsZero()
}

// filter keeps the hits that the options ask for. Facts get their source, and
// those that are not true now are left out unless they are asked for.
func (r *recallRun) filter(ctx context.Context, hits []memory.Hit) ([]memory.Hit, error) {
	var kept []memory.Hit
	for _, hit := range hits {
		entry := hit.Source == memory.FromEntry
		if r.options.Prefix != "" && (!entry || !store.Covers(r.options.Prefix, hit.Key)) ||
			!r.options.After.IsZero() && !hit.CreatedAt.After(r.options.After) || !r.options.Before.IsZero() && !hit.CreatedAt.Before(r.options.Before) {
			continue
		}
		if entry && hit.Scope != memory.ScopeSession && store.Covers(memory.FactSpace, hit.Key) {
			shown, err := r.addFact(ctx, &hit)
			if err != nil {
				return nil, err
			}
			if !shown {
				continue
			}
		}
		kept = append(kept, hit)
	}
	return kept, nil
}

// addFact adds what is known of a fact to its hit. It reports whether the hit is
// to be shown.
func (r *recallRun) addFact(ctx context.Context, hit *memory.Hit) (bool, error) {
	owner, err := r.owner(hit.Scope)
	if err != nil {
		return false, err
	}
	e, found, err := r.rt.memories.Entry(ctx, owner, hit.Key, 0)
	if err != nil || !found {
		return false, err
	}
	f, ok := memory.FactOf(entryOf(hit.Scope, e))
	if !ok {
		return !isFactNote(e), nil
	}
	hit.Fact = &f
	return r.options.Facts == memory.FactsAll || f.Valid(r.rt.config.Now()), nil
}

// isFactNote reports an entry by which the extraction of facts knows what it has
// done. It says nothing to anybody else.
func isFactNote(e store.Entry) bool {
	var journal factJournal
	return e.Key == memory.FactSpace || !strings.Contains(e.Key, "-") && json.Unmarshal(e.Value, &journal) == nil && journal.ExecutionID != ""
}
