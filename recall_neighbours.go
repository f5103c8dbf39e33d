package holdfast

import (
	"context"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// neighbourReach is how many changes of a log are read before and after a message
// to find its neighbours.
const neighbourReach = 64

// addNeighbours adds the messages around found ones, as far as they may be
// searched themselves.
func (r *recallRun) addNeighbours(ctx context.Context, hits []memory.Hit) error {
	if r.options.Neighbours == 0 || r.rt.logs == nil {
		return nil
	}
	spans := map[string][]session.Span{}
	for i, hit := range hits {
		if hit.Source != memory.FromMessage {
			continue
		}
		ref := store.Ref{Tenant: r.ref.Tenant, ID: hit.SessionID}
		if _, known := spans[hit.SessionID]; !known {
			s, err := r.rt.store.Load(ctx, ref, r.rt.tails != nil)
			if err != nil {
				return err
			}
			spans[hit.SessionID] = session.Spans(s)
		}
		entries, err := r.rt.logs.Log(ctx, ref, max(hit.Seq-neighbourReach-1, 0), 2*neighbourReach+1)
		if err != nil {
			return err
		}
		for _, e := range entries {
			added, ok := e.Change.(session.MessageAdded)
			if !ok || e.Discarded || e.Seq == hit.Seq || added.Message.Trace && !r.options.IncludeTrace ||
				!r.options.IncludeCleared && !session.Holds(spans[hit.SessionID], e.Seq) {
				continue
			}
			if e.Seq < hit.Seq {
				hits[i].Before = append(hits[i].Before, added.Message)
			} else if len(hits[i].After) < r.options.Neighbours {
				hits[i].After = append(hits[i].After, added.Message)
			}
		}
		hits[i].Before = hits[i].Before[max(len(hits[i].Before)-r.options.Neighbours, 0):]
	}
	return nil
}
