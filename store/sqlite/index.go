package sqlite

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// A save does not pay for the index of words: it is filled later, up to a change
// called the mark, and a search reads the messages after the mark from the log.
// The mark and the rows of the index move in one transaction.

// place is the position of a change in the table and in its log.
type place struct{ n, log, seq int64 }

// passage is a message in the index.
type passage struct {
	place
	at     int64
	trace  bool
	tokens string
}

// scanPlace scans a row of changes that begins with its place.
func scanPlace(rows *rows) (at place, r logRow, err error) {
	err = r.scan(rows, &at.n, &at.log)
	at.seq = r.seq
	return at, r, err
}

// indexing is the next part of the log to be indexed. It is read and split into
// words before the write is queued, because all writes share one writer.
type indexing struct {
	mark, upTo int64
	places     []place // of all changes in the part, to see whether they are still there
	passages   []passage
}

const (
	// A part is small, so that queued writes hardly wait for it.
	maxPart      = 256
	maxPartBytes = 256 << 10
)

// errMoved says that the log has changed since the part was read.
var errMoved = errors.New("the log or its index has changed")

// unindexed counts the changes after the mark.
func (c *conn) unindexed(ctx context.Context) (n int64, err error) {
	_, err = c.one(ctx, "SELECT (SELECT coalesce(max(n), 0) FROM changes) - value FROM counters WHERE name = 'indexed'", nil, &n)
	return n, err
}

func (c *conn) mark(ctx context.Context) (n int64, err error) {
	_, err = c.one(ctx, "SELECT value FROM counters WHERE name = 'indexed'", nil, &n)
	return n, err
}

// partAfter reads the part after a mark, at most most changes.
func (c *conn) partAfter(ctx context.Context, mark int64, most int) (indexing, error) {
	part := indexing{mark: mark, upTo: mark}
	size := 0
	err := c.each(ctx, "SELECT n, log, "+columns+" FROM changes WHERE n > ? ORDER BY n LIMIT +?", []any{mark, most}, func(rows *rows) error {
		at, r, err := scanPlace(rows)
		if err != nil {
			return err
		}
		part.upTo, part.places = at.n, append(part.places, at)
		if p, ok := passageOf(at, r); ok {
			part.passages = append(part.passages, p)
		}
		if size += len(r.data); size > maxPartBytes {
			return errStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return indexing{}, err
	}
	if part.passages, err = c.withoutForgotten(ctx, part.passages); err != nil {
		return indexing{}, err
	}
	return part, c.nameOwners(ctx, part.passages)
}

// passageOf returns what is indexed of a message, without its owners' tokens. A
// message without words, or that cannot be read, is not indexed.
func passageOf(at place, r logRow) (passage, bool) {
	m, ok := r.message()
	if !ok {
		return passage{}, false
	}
	p := passage{place: at, at: micros(m.CreatedAt), trace: m.Trace, tokens: tokens(store.MessageText(m))}
	return p, p.tokens != ""
}

// message returns the message that a change adds, if it adds one that can be
// read.
func (r logRow) message() (session.Message, bool) {
	if r.kind != messageAdded {
		return session.Message{}, false
	}
	record, err := r.record("")
	added, ok := record.Change.(session.MessageAdded)
	return added.Message, ok && err == nil
}

// nameOwners adds the tokens of their owners to passages.
func (c *conn) nameOwners(ctx context.Context, passages []passage) error {
	owners := map[int64]string{}
	for i, p := range passages {
		whose, known := owners[p.log]
		if !known {
			var err error
			if whose, err = c.ownerOf(ctx, p.log); err != nil {
				return err
			}
			owners[p.log] = whose
		}
		passages[i].tokens = whose + p.tokens
	}
	return nil
}

// userOf returns the user of a log, without a name where it has none. All
// sessions that share a log have the same user; if the session was purged, its
// forks tell who.
func (c *conn) userOf(ctx context.Context, log int64) (store.Owner, error) {
	user := store.Owner{Scope: store.ScopeUser}
	_, err := c.one(ctx, `SELECT tenant, user_id FROM sessions WHERE log = ?1
UNION ALL SELECT tenant, user_id FROM lineage JOIN sessions USING (log) WHERE ancestor = ?1 LIMIT 1`,
		[]any{log}, &user.Tenant, &user.Name)
	return user, err
}

// ownerOf returns the tokens of a log's owners: the log itself and its user.
func (c *conn) ownerOf(ctx context.Context, log int64) (string, error) {
	user, err := c.userOf(ctx, log)
	if err != nil {
		return "", err
	}
	whose := logToken(log) + " "
	if user.Name != "" {
		whose += ownerToken(user) + " "
	}
	return whose, nil
}

// index writes a part to the index. If the log has changed since the part was
// read it writes nothing and returns errMoved: a purge may have removed changes,
// and new ones may have their numbers.
func (c *conn) index(ctx context.Context, part indexing) error {
	mark, err := c.mark(ctx)
	if err != nil {
		return err
	}
	var places []place
	err = c.each(ctx, "SELECT n, log, seq FROM changes WHERE n > ? AND n <= ? ORDER BY n", []any{part.mark, part.upTo}, func(rows *rows) error {
		var at place
		err := rows.Scan(&at.n, &at.log, &at.seq)
		places = append(places, at)
		return err
	})
	if err != nil {
		return err
	}
	if mark != part.mark || !slices.Equal(places, part.places) {
		return errMoved
	}
	c.onWrite("before index")
	passages, err := c.withoutForgotten(ctx, part.passages) // some may have been forgotten meanwhile
	if err != nil {
		return err
	}
	for _, p := range passages {
		if _, err := c.exec(ctx, "INSERT INTO message_words (rowid, tokens) VALUES (?, ?)", p.n, p.tokens); err != nil {
			return err
		}
		if _, err := c.exec(ctx, "INSERT INTO passages (n, log, seq, at, trace) VALUES (?, ?, ?, ?, ?)", p.n, p.log, p.seq, p.at, p.trace); err != nil {
			return err
		}
	}
	if _, err := c.exec(ctx, "UPDATE counters SET value = ? WHERE name = 'indexed'", part.upTo); err != nil {
		return err
	}
	c.onWrite("after index")
	return nil
}

// unneeded are the changes of log ?1 that neither a session nor a fork needs.
const unneeded = `log = ?1 AND seq > coalesce((SELECT max(upto_seq) FROM lineage WHERE ancestor = ?1), 0)
AND NOT EXISTS (SELECT 1 FROM sessions WHERE log = ?1)`

// wholeLog are all changes of log ?1.
const wholeLog = "log = ?1"

// unindex removes changes of a log from the index of words: the unneeded ones, or
// the whole log.
func (c *conn) unindex(ctx context.Context, log int64, which string) error {
	for _, statement := range []string{
		"DELETE FROM message_words WHERE rowid IN (SELECT p.n FROM passages p WHERE p.n IN (SELECT n FROM changes WHERE " + which + "))",
		"DELETE FROM passages WHERE n IN (SELECT n FROM changes WHERE " + which + ")",
	} {
		if _, err := c.exec(ctx, statement, log); err != nil {
			return err
		}
	}
	return nil
}

// lowerMarks moves marks back that lie beyond the end of the log, because the
// numbers of removed last changes are used again.
func (c *conn) lowerMarks(ctx context.Context) error {
	for _, statement := range []string{
		"UPDATE counters SET value = min(value, (SELECT coalesce(max(n), 0) FROM changes)) WHERE name = 'indexed'",
		"UPDATE embedders SET changes = min(changes, (SELECT coalesce(max(n), 0) FROM changes))",
	} {
		if _, err := c.exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// indexEntry adds an entry to the index, whose key has none there.
func (c *conn) indexEntry(ctx context.Context, key int64, tokens string) error {
	_, err := c.exec(ctx, "INSERT INTO entry_words (rowid, tokens) VALUES (?, ?)", key, tokens)
	return err
}

func entryTokens(o store.Owner, e store.Entry) string {
	return tokens(store.EntryWords(e.Key, e.Value), ownerToken(o))
}
