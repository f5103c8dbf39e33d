package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// A passage waits for a vector while it has none. Each embedder has marks, before
// which nothing waits, so that a scan need not read the whole log. They move in
// the transaction that stores vectors.

// embedder is a row of the embedders.
type embedder struct {
	id               int64 // 0: it has made none yet
	changes, entries int64 // its marks
}

func (c *conn) embedder(ctx context.Context, name string) (e embedder, err error) {
	_, err = c.one(ctx, "SELECT id, changes, entries FROM embedders WHERE name = ?", []any{name}, &e.id, &e.changes, &e.entries)
	return e, err
}

// unembedded is a passage that waits, with its number among its kind and when
// it was written.
type unembedded struct {
	store.Unembedded
	n, at int64
}

// Unembedded lists passages without a vector.
func (s *Store) Unembedded(ctx context.Context, name string, limit int) ([]store.Unembedded, error) {
	if err := s.usable(ctx, store.CheckEmbedder(name)); err != nil {
		return nil, err
	}
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	var messages, entries []unembedded
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		e, err := c.embedder(ctx, name)
		if err != nil {
			return err
		}
		if messages, err = c.waitingMessages(ctx, e, math.MaxInt64, limit); err != nil {
			return err
		}
		entries, err = c.waitingEntries(ctx, e, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	var list []store.Unembedded
	for len(list) < limit && len(messages)+len(entries) > 0 { // the earlier one first
		if len(entries) == 0 || len(messages) > 0 && messages[0].at <= entries[0].at {
			list, messages = append(list, messages[0].Unembedded), messages[1:]
		} else {
			list, entries = append(list, entries[0].Unembedded), entries[1:]
		}
	}
	return list, nil
}

// UnembeddedOf lists messages of a session without a vector.
func (s *Store) UnembeddedOf(ctx context.Context, r store.Ref, name string, limit int) ([]store.Unembedded, error) {
	if err := s.usable(ctx, r.Check(), store.CheckEmbedder(name)); err != nil {
		return nil, err
	}
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	var list []store.Unembedded
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		e, err := c.embedder(ctx, name)
		if err != nil {
			return err
		}
		w, found, err := c.find(ctx, r, 0)
		if err != nil || !found {
			return err
		}
		parts, err := c.history(ctx, w, w.last)
		if err != nil {
			return err
		}
		for _, p := range parts {
			if len(list) == limit {
				break
			}
			some, err := c.waitingIn(ctx, e, "log = ?1 AND seq > ?2 AND seq <= ?3", "seq", []any{p.log, p.after, p.upTo}, limit-len(list))
			if err != nil {
				return err
			}
			for _, u := range some {
				list = append(list, u.Unembedded)
			}
		}
		return nil
	})
	return list, err
}

// waitingMessages reads the first messages after the mark that wait, up to a
// change.
func (c *conn) waitingMessages(ctx context.Context, e embedder, upTo int64, limit int) ([]unembedded, error) {
	return c.waitingIn(ctx, e, "n > ?1 AND n <= ?2", "n", []any{e.changes, upTo}, limit)
}

// waitingIn reads the first messages that wait among some changes.
func (c *conn) waitingIn(ctx context.Context, e embedder, where, order string, args []any, limit int) ([]unembedded, error) {
	var list []unembedded
	err := c.each(ctx, "SELECT n, log, "+columns+" FROM changes c WHERE "+where+fmt.Sprintf(" AND kind = ?%d AND discarded = 0 AND ", len(args)+1)+searchable+
		fmt.Sprintf(" AND NOT EXISTS (SELECT 1 FROM message_vectors v WHERE v.log = c.log AND v.seq = c.seq AND v.embedder = ?%d) ORDER BY ", len(args)+2)+order,
		append(args, messageAdded, e.id), func(rows *rows) error {
			at, r, err := scanPlace(rows)
			if err != nil {
				return err
			}
			m, ok := r.message()
			if !ok {
				return nil
			}
			if text := store.MessageText(m); text != "" {
				list = append(list, unembedded{store.Unembedded{Token: messageToken(at), Text: text}, at.n, micros(m.CreatedAt)})
			}
			if len(list) == limit {
				return errStop
			}
			return nil
		})
	if errors.Is(err, errStop) {
		err = nil
	}
	return list, err
}

// waitingEntries reads the first entries after the mark that wait.
func (c *conn) waitingEntries(ctx context.Context, e embedder, limit int) ([]unembedded, error) {
	var list []unembedded
	err := c.each(ctx, `SELECT e.n, e.updated_at, k.name, e.value FROM memory_entries e JOIN memory_keys k ON k.id = e.key AND k.version = e.version
WHERE e.n > ? AND NOT EXISTS (SELECT 1 FROM entry_vectors v WHERE v.key = e.key AND v.embedder = ? AND v.version = e.version) ORDER BY e.n LIMIT +?`,
		[]any{e.entries, e.id, limit}, func(rows *rows) error {
			var u unembedded
			var key string
			var value []byte
			err := rows.Scan(&u.n, &u.at, &key, &value)
			u.Token, u.Text = entryToken(u.n), store.EntryWords(key, value)
			list = append(list, u)
			return err
		})
	return list, err
}

// Tokens name passages. A place in a log is never used twice, nor is an entry's
// number.

func messageToken(at place) string { return fmt.Sprintf("m%d.%d", at.log, at.seq) }

func entryToken(n int64) string { return fmt.Sprintf("e%d", n) }

// parseToken returns what a token names: a message, or the entry with a number.
func parseToken(token string) (at place, entry bool, err error) {
	if _, err := fmt.Sscanf(token, "m%d.%d", &at.log, &at.seq); err == nil && messageToken(at) == token {
		return at, false, nil
	}
	at = place{}
	if _, err := fmt.Sscanf(token, "e%d", &at.n); err == nil && entryToken(at.n) == token {
		return at, true, nil
	}
	return at, false, &session.InvalidError{Field: "token", Reason: fmt.Sprintf("%q names no passage", token)}
}

// embedding is a vector for a message or for an entry.
type embedding struct {
	place
	entry  bool
	at     int64 // of a message, as is what follows
	trace  bool
	vector store.Packed // or nil
	placement
}

// blob is the vector for a statement, NULL where there is none.
func (e embedding) blob() any {
	if e.vector == nil {
		return nil
	}
	return []byte(e.vector)
}

func newEmbedding(e store.Embedding) (made embedding, err error) {
	if err := e.Check(); err != nil {
		return made, err
	}
	made.vector = e.Pack()
	made.place, made.entry, err = parseToken(e.Token)
	return made, err
}

// Embedded keeps vectors.
func (s *Store) Embedded(ctx context.Context, name string, vectors []store.Embedding) error {
	if err := s.usable(ctx, store.CheckEmbedder(name)); err != nil {
		return err
	}
	var all []embedding
	for _, e := range vectors {
		made, err := newEmbedding(e)
		if err != nil {
			return err
		}
		all = append(all, made)
	}
	if len(all) == 0 {
		return nil
	}
	// Messages are read before the write is queued, because all writes share one
	// writer. They may be deleted until then, but never change.
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		if err := c.readMessages(ctx, all); err != nil {
			return err
		}
		e, err := c.embedder(ctx, name)
		if err != nil {
			return err
		}
		return s.chooseCells(ctx, c, e.id, all)
	})
	if err != nil {
		return err
	}
	return s.write(ctx, &request{keepsCache: true, do: func(ctx context.Context, c *conn) error { return c.embed(ctx, name, all, s.cells.maxCell) }})
}

// readMessages reads the times and traces of embedded messages.
func (c *conn) readMessages(ctx context.Context, all []embedding) error {
	for i := range all {
		if all[i].entry {
			continue
		}
		err := c.each(ctx, "SELECT n, log, "+columns+" FROM changes WHERE log = ? AND seq = ?", []any{all[i].log, all[i].seq}, func(rows *rows) error {
			_, r, err := scanPlace(rows)
			if m, ok := r.message(); err == nil && ok {
				all[i].at, all[i].trace = micros(m.CreatedAt), m.Trace
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// embed writes the vectors of passages that still exist, and moves the marks.
func (c *conn) embed(ctx context.Context, name string, all []embedding, maxCell int) error {
	if _, err := c.exec(ctx, "INSERT INTO embedders (name) VALUES (?) ON CONFLICT DO NOTHING", name); err != nil {
		return err
	}
	e, err := c.embedder(ctx, name)
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.entry {
			_, err = c.exec(ctx, `INSERT INTO entry_vectors (key, embedder, version, vector)
SELECT e.key, ?1, e.version, ?2 FROM memory_entries e JOIN memory_keys k ON k.id = e.key AND k.version = e.version WHERE e.n = ?3
ON CONFLICT (key, embedder) DO UPDATE SET version = excluded.version, vector = excluded.vector`, e.id, v.blob(), v.n)
		} else {
			_, err = c.exec(ctx, `INSERT INTO message_vectors (log, seq, embedder, at, trace, vector)
SELECT log, seq, ?1, ?2, ?3, ?4 FROM changes c WHERE log = ?5 AND seq = ?6 AND kind = ?7 AND discarded = 0 AND `+searchable+`
ON CONFLICT (log, seq, embedder) DO UPDATE SET vector = excluded.vector`, e.id, v.at, v.trace, v.blob(), v.log, v.seq, messageAdded)
		}
		if err != nil {
			return err
		}
	}
	if err := c.indexVectors(ctx, e.id, all, maxCell); err != nil {
		return err
	}
	c.onWrite("after vectors")
	return c.moveMarks(ctx, e)
}

// maxMove bounds how far a mark moves at once, so that queued writes do not wait
// long.
const maxMove = 4096

// moveMarks moves the marks of an embedder to the first passages that wait.
func (c *conn) moveMarks(ctx context.Context, e embedder) error {
	var messages, entries int64 // the last ones
	if _, err := c.one(ctx, "SELECT (SELECT coalesce(max(n), 0) FROM changes), (SELECT coalesce(max(n), 0) FROM memory_entries)", nil, &messages, &entries); err != nil {
		return err
	}
	messages, entries = min(messages, e.changes+maxMove), min(entries, e.entries+maxMove)
	waiting, err := c.waitingMessages(ctx, e, messages, 1)
	if err != nil {
		return err
	}
	if len(waiting) > 0 {
		messages = waiting[0].n - 1
	}
	if waiting, err = c.waitingEntries(ctx, e, 1); err != nil {
		return err
	}
	if len(waiting) > 0 {
		entries = waiting[0].n - 1
	}
	_, err = c.exec(ctx, "UPDATE embedders SET changes = max(changes, ?), entries = max(entries, ?) WHERE id = ?", messages, entries, e.id)
	c.onWrite("after marks")
	return err
}
