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
	o := r.options
	return o.Prefix != "" || o.Labelled() || !o.After.IsZero() || !o.Before.IsZero()
}

// filter keeps the hits that the options ask for, without entries that have
// expired. Facts get their source, and those that are not true now are left out
// unless they are asked for.
func (r *recallRun) filter(ctx context.Context, hits []memory.Hit) ([]memory.Hit, error) {
	var kept []memory.Hit
	for _, hit := range hits {
		entry := hit.Source == memory.FromEntry
		if !r.options.Within(hit.CreatedAt) || !entry && (r.options.Prefix != "" || r.options.Labelled()) ||
			entry && !store.Covers(r.options.Prefix, hit.Key) {
			continue
		}
		if entry && hit.Scope != memory.ScopeSession {
			shown, err := r.addEntry(ctx, &hit)
			if err != nil {
				return nil, err
			}
			if !shown {
				continue
			}
		}
		if hit.Labels.Has(r.options.Tags, r.options.Metadata) {
			kept = append(kept, hit)
		}
	}
	return kept, nil
}

// addEntry adds the labels of an entry to its hit, and what is known of a fact. It
// reports whether the hit is to be shown.
func (r *recallRun) addEntry(ctx context.Context, hit *memory.Hit) (bool, error) {
	owner, err := r.owner(hit.Scope)
	if err != nil {
		return false, err
	}
	now := r.rt.config.Now()
	e, found, err := r.rt.memories.Entry(ctx, owner, hit.Key, 0)
	if err != nil || !found || e.Labels.Expired(now) {
		return false, err
	}
	hit.Labels = e.Labels
	if !store.Covers(memory.FactSpace, hit.Key) {
		return true, nil
	}
	f, ok := memory.FactOf(entryOf(hit.Scope, e))
	if !ok {
		return !isFactNote(e), nil
	}
	hit.Fact = &f
	return r.options.Facts == memory.FactsAll || f.Valid(now), nil
}

// isFactNote reports an entry by which the extraction of facts knows what it has
// done. It says nothing to anybody else.
func isFactNote(e store.Entry) bool {
	var journal factJournal
	return e.Key == memory.FactSpace || !strings.Contains(e.Key, "-") && json.Unmarshal(e.Value, &journal) == nil && journal.ExecutionID != ""
}
