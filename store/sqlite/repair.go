package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Repair rebuilds heads, rows, the index of words and the marks of embedders
// where they are not what the log says. Each session is repaired in a
// transaction of its own, in which it is examined again. A session whose log
// cannot be folded stays as it is.
func (s *Store) Repair(ctx context.Context, p store.Progress) (repaired []string, err error) {
	refs, err := s.everySession(ctx)
	if err != nil {
		return nil, err
	}
	total := len(refs) + 1 // the index is one more
	for i, r := range refs {
		p.Report(i, total)
		done, err := s.repairSession(ctx, r)
		repaired = append(repaired, done.described(r)...)
		if err != nil {
			return repaired, err
		}
	}
	p.Report(len(refs), total)
	problems, err := s.checkIndex(ctx)
	if err != nil {
		return repaired, err
	}
	if len(problems) > 0 {
		if _, err := s.Reindex(ctx, nil); err != nil {
			return repaired, err
		}
		repaired = append(repaired, problems...)
	}
	problems, err = s.repairVectors(ctx)
	p.Report(total, total)
	return append(repaired, problems...), err
}

// repairSession repairs a session and returns what it has repaired.
func (s *Store) repairSession(ctx context.Context, r store.Ref) (examination, error) {
	e, err := s.examineSession(ctx, r)
	if err != nil || !e.repairable() {
		return examination{}, err
	}
	err = s.write(ctx, &request{ref: r, do: func(ctx context.Context, c *conn) error {
		w, found, err := c.find(ctx, r, 0)
		if err != nil || !found {
			e = examination{}
			return err
		}
		if e, err = c.examine(ctx, r, w); err != nil || !e.repairable() {
			return err
		}
		return c.repair(ctx, r, e)
	}})
	if err != nil || !e.repairable() {
		return examination{}, err
	}
	return e, nil
}

func (e examination) repairable() bool { return !e.lost && (e.heads || e.row) }

// repair writes what the examination says should be there.
func (c *conn) repair(ctx context.Context, r store.Ref, e examination) error {
	c.onWrite("before mending")
	if e.heads {
		if err := c.rebuildHeads(ctx, r, e.log); err != nil {
			return err
		}
	}
	names, values, err := e.columns(r)
	if err != nil {
		return err
	}
	if _, err = c.exec(ctx, "UPDATE sessions SET "+strings.Join(names, " = ?, ")+" = ? WHERE log = ?", append(values, e.log.log)...); err == nil {
		err = c.setTags(ctx, r, e.log.log, e.sealed)
	}
	c.onWrite("after mending")
	return err
}

// rebuildHeads writes all heads of a session anew, for the versions for which
// saves would have written them.
func (c *conn) rebuildHeads(ctx context.Context, r store.Ref, w row) error {
	if _, err := c.exec(ctx, "DELETE FROM heads WHERE log = ?", w.log); err != nil {
		return err
	}
	w.head = head{}
	if _, err := c.eachVersion(ctx, r, w, func(s session.Session) error {
		if err := c.sizeAfter(ctx, &w, s.Seq()); err != nil {
			return err
		}
		if w.head.version > 0 && !(versionWrite{sealed: s}).headDue(w) {
			return nil
		}
		if _, err := c.one(ctx, "SELECT sum FROM changes WHERE log = ? AND seq = ?", []any{w.log, s.Seq()}, (*int64)(&w.lastSum)); err != nil {
			return err
		}
		if err := c.addHead(ctx, w, s); err != nil {
			return err
		}
		w.head = head{version: s.Version(), seq: s.Seq()}
		_, err := c.one(ctx, "SELECT length(data) FROM heads WHERE log = ? AND base = ?", []any{w.log, s.Version()}, &w.head.size)
		return err
	}); err != nil {
		return err
	}
	if err := c.sizeAfter(ctx, &w, w.last); err != nil {
		return err
	}
	_, err := c.exec(ctx, "UPDATE sessions SET since_head = ? WHERE log = ?", w.unfolded, w.log)
	return err
}

// sizeAfter measures the changes after the newest head.
func (c *conn) sizeAfter(ctx context.Context, w *row, upTo int64) error {
	_, err := c.one(ctx, "SELECT coalesce(sum(length(data)), 0) FROM changes WHERE log = ? AND seq > ? AND seq <= ?",
		[]any{w.log, w.head.seq, upTo}, &w.unfolded)
	return err
}

// Reindex builds the indexes of words and of vectors anew. Meanwhile messages are
// found without them, more slowly.
func (s *Store) Reindex(ctx context.Context, p store.Progress) (int, error) {
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	if err := s.write(ctx, &request{do: func(ctx context.Context, c *conn) error { return c.startIndex(ctx) }}); err != nil {
		return 0, err
	}
	total := int64(-1)
	for {
		waiting, err := s.indexPart(ctx, 1, maxPart)
		if err != nil {
			return 0, s.translate(ctx, err)
		}
		total = max(total, waiting)
		p.Report(int(total-waiting), int(total))
		if waiting == 0 {
			break
		}
	}
	if err := s.rebuildCells(ctx); err != nil {
		return 0, err
	}
	var n int
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		_, err := c.one(ctx, `SELECT (SELECT count(*) FROM passages) +
	(SELECT count(*) FROM memory_keys k JOIN memory_entries e ON e.key = k.id AND e.version = k.version)`, nil, &n)
		return err
	})
	return n, err
}

// startIndex empties the index of messages, which indexPart fills, and rebuilds
// that of entries.
func (c *conn) startIndex(ctx context.Context) error {
	for _, statement := range []string{
		"INSERT INTO message_words (message_words) VALUES ('delete-all')",
		"INSERT INTO entry_words (entry_words) VALUES ('delete-all')",
		"DELETE FROM passages",
		"INSERT OR REPLACE INTO counters VALUES ('indexed', 0)",
	} {
		if _, err := c.exec(ctx, statement); err != nil {
			return fmt.Errorf("empty the index of words: %w", err)
		}
	}
	rows := map[int64]string{}
	if err := c.eachEntry(ctx, func(key int64, o store.Owner, e store.Entry) {
		rows[key] = entryTokens(o, e)
	}); err != nil {
		return err
	}
	for key, words := range rows {
		if err := c.indexEntry(ctx, key, words); err != nil {
			return err
		}
	}
	return nil
}
