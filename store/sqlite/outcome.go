package sqlite

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
)

// resolve finds out what a failed commit has written and answers all requests.
// A transaction is written whole or not at all, so what is found for one request
// holds for all of them.
func (w *writer) resolve(ctx context.Context, batch []*request, cause error) {
	w.rollback(ctx)
	saved, known := w.outcome(ctx, batch)
	if known && saved {
		w.acknowledge(batch)
		return
	}
	for _, q := range batch {
		switch {
		case known:
			q.answer <- fmt.Errorf("write session %s: nothing was saved, try again: %w", q.ref.ID, cause)
		case q.refusal != nil:
			q.answer <- q.refusal
		default:
			w.subscribers.Notify(q.ref)
			q.answer <- &session.UnknownOutcomeError{ID: q.ref.ID, CommitID: q.commitID, Err: cause}
		}
	}
}

// outcome looks for what the batch wrote. A commit that failed during its flush
// may still be in the write-ahead log, where nobody sees it until a crash makes
// SQLite read the log again. So outcome makes a commit of its own, which
// overwrites that place in the log: if it succeeds, what was found is final.
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
