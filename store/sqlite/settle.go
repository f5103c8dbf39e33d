package sqlite

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
)

// settle finds out what a failed commit has done and tells everybody. A
// transaction is there as a whole or not at all, so what is found of one
// request holds for all of them.
func (w *writer) settle(ctx context.Context, batch []*request, cause error) {
	w.rollback(ctx)
	saved, known := w.outcome(ctx, batch)
	if known && saved {
		w.acknowledge(batch)
		return
	}
	for _, q := range batch {
		switch {
		case known:
			q.answer <- fmt.Errorf("write session %s: nothing was saved: %w", q.ref.ID, cause)
		case q.refusal != nil:
			q.answer <- q.refusal
		default:
			w.bells.Ring(q.ref)
			q.answer <- &session.UnknownOutcomeError{ID: q.ref.ID, CommitID: q.commitID, Err: cause}
		}
	}
}

// outcome looks for what the batch wrote. A commit that failed while it was
// flushed may have left itself in the write-ahead log, where nobody sees it
// until a crash makes SQLite read the log again. So the search is part of a
// commit of its own: it takes that place in the log, and when it succeeds what
// was found is final.
func (w *writer) outcome(ctx context.Context, batch []*request) (saved, known bool) {
	if err := w.begin(ctx); err != nil {
		return false, false
	}
	defer func() {
		if !known {
			w.rollback(ctx)
		}
	}()
	for _, q := range batch {
		if q.refusal != nil || q.saved == nil {
			continue
		}
		found, err := q.saved(ctx, w.conn)
		if err != nil {
			return false, false
		}
		if _, err := w.conn.exec(ctx, "UPDATE counters SET value = value + 1 WHERE name = 'settled'"); err != nil {
			return false, false
		}
		if err := w.commit(ctx); err != nil {
			return false, false
		}
		return found, true
	}
	return false, false
}
