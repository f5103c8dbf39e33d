package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Search finds passages by their words.
func (s *Store) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	q, err := q.Check()
	if err != nil {
		return nil, err
	}
	s.indexer.searched()
	var found []store.Passage
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		at := search{query: q, owners: q.Owners(tenant), view: newView(c, tenant, q), levels: make([]level, len(q.Words)+1)}
		found, err = at.run(ctx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// search is one search by words. The index tells how many of the words each
// passage holds. Passages are read in the order of the result, those with most
// words and of these the newest first, until there are enough.
type search struct {
	query  store.Search
	owners []store.Owner
	view   *view
	levels []level // by number of words
}

// level holds the passages with the same number of words.
type level struct {
	messages []int64     // from the index, by their change
	entries  []int64     // from the index, by their key
	read     []candidate // read from the log
}

// candidate is a passage that holds the words. Whether a searched session shows
// it is not known yet.
type candidate struct {
	place
	at    int64
	owner store.Owner // of an entry, whose key is n
}

func (s *search) run(ctx context.Context, c *conn) ([]store.Passage, error) {
	for _, collect := range []func(context.Context, *conn) error{s.view.open, s.collectIndexed, s.collectUnindexed, s.collectEntries} {
		if err := collect(ctx, c); err != nil {
			return nil, err
		}
	}
	var found []store.Passage
	for words := len(s.query.Words); words >= s.query.Least && len(found) < s.query.Limit; words-- {
		candidates, err := s.candidates(ctx, c, s.levels[words])
		if err != nil {
			return nil, err
		}
		if found, err = s.take(ctx, c, candidates, found); err != nil {
			return nil, err
		}
	}
	return s.query.Rank(found), nil
}

// collectIndexed finds messages in the index.
func (s *search) collectIndexed(ctx context.Context, c *conn) error {
	var whose []string
	for log := range s.view.logs() {
		whose = append(whose, logToken(log))
	}
	switch {
	case s.query.Everywhere:
		whose = nil
	case s.query.User != "":
		whose = append(whose, ownerToken(s.owners[0]))
	case len(whose) == 0:
		return nil
	}
	return s.count(ctx, c, "SELECT rowid FROM message_words WHERE message_words MATCH ?", whose, func(l *level, n int64) { l.messages = append(l.messages, n) })
}

// collectEntries finds entries in the index.
func (s *search) collectEntries(ctx context.Context, c *conn) error {
	var whose []string
	for _, o := range s.owners {
		whose = append(whose, ownerToken(o))
	}
	if len(whose) == 0 {
		return nil
	}
	return s.count(ctx, c, "SELECT rowid FROM entry_words WHERE entry_words MATCH ?", whose, func(l *level, n int64) { l.entries = append(l.entries, n) })
}

// count queries the index for each word and adds each row it finds to the level
// for the number of words it holds. Without tokens of owners it is everybody's.
func (s *search) count(ctx context.Context, c *conn, query string, whose []string, add func(*level, int64)) error {
	counts := map[int64]int{}
	for _, word := range s.query.Words {
		err := c.each(ctx, query, []any{having(whose, word)}, func(rows *rows) error {
			var n int64
			err := rows.Scan(&n)
			counts[n]++
			return err
		})
		if err != nil {
			return err
		}
	}
	for n, words := range counts {
		add(&s.levels[words], n)
	}
	return nil
}

// collectUnindexed reads the messages that are not indexed yet: from the end of
// each log back to the mark, however long the log is.
func (s *search) collectUnindexed(ctx context.Context, c *conn) error {
	mark, err := c.mark(ctx)
	if err != nil {
		return err
	}
	logs, err := s.view.unindexedLogs(ctx, mark)
	if err != nil {
		return err
	}
	for _, log := range logs {
		err := c.each(ctx, "SELECT n, log, "+columns+" FROM changes c WHERE log = ? AND "+searchable+" ORDER BY seq DESC", []any{log}, func(rows *rows) error {
			at, r, err := scanPlace(rows)
			if err != nil {
				return err
			}
			if at.n <= mark {
				return errStop
			}
			m, ok := r.message()
			if !ok || (m.Trace && !s.query.Trace) {
				return nil
			}
			l := &s.levels[s.query.Found(store.MessageText(m))]
			l.read = append(l.read, candidate{place: at, at: micros(m.CreatedAt)})
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
	}
	return nil
}

// candidates are the passages of a level, the newest first.
func (s *search) candidates(ctx context.Context, c *conn, l level) ([]candidate, error) {
	list := l.read
	messages, err := json.Marshal(l.messages)
	if err != nil {
		return nil, err
	}
	err = c.each(ctx, `SELECT p.n, p.log, p.seq, p.at FROM json_each(?) j CROSS JOIN passages p ON p.n = j.value WHERE p.trace <= ?`,
		[]any{string(messages), s.query.Trace}, func(rows *rows) error {
			var m candidate
			err := rows.Scan(&m.n, &m.log, &m.seq, &m.at)
			list = append(list, m)
			return err
		})
	if err != nil {
		return nil, err
	}
	keys, err := json.Marshal(l.entries)
	if err != nil {
		return nil, err
	}
	err = c.each(ctx, `SELECT k.id, k.tenant, k.scope, k.owner, e.updated_at FROM json_each(?) j
CROSS JOIN memory_keys k ON k.id = j.value JOIN memory_entries e ON e.key = k.id AND e.version = k.version`,
		[]any{string(keys)}, func(rows *rows) error {
			var e candidate
			err := rows.Scan(&e.n, &e.owner.Tenant, &e.owner.Scope, &e.owner.Name, &e.at)
			if slices.Contains(s.owners, e.owner) {
				list = append(list, e)
			}
			return err
		})
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(b.at, a.at) })
	return list, err
}

// take reads candidates until the limit is reached. It reads all of the same
// time, because time does not decide their order.
func (s *search) take(ctx context.Context, c *conn, candidates []candidate, found []store.Passage) ([]store.Passage, error) {
	var last int64
	for _, from := range candidates {
		if len(found) >= s.query.Limit && from.at != last {
			break
		}
		lookUp := s.message
		if from.owner.Name != "" {
			lookUp = s.entry
		}
		p, ok, err := lookUp(ctx, c, from)
		if err != nil {
			return nil, err
		}
		if ok && p.Found >= s.query.Least {
			found, last = append(found, p), from.at
		}
	}
	return found, nil
}

// message reads a message, if a searched session holds it.
func (s *search) message(ctx context.Context, c *conn, from candidate) (p store.Passage, found bool, err error) {
	id, err := s.view.holder(ctx, from.place)
	if err != nil || id == "" {
		return store.Passage{}, false, err
	}
	err = c.each(ctx, "SELECT n, log, "+columns+" FROM changes WHERE n = ?", []any{from.n}, func(rows *rows) error {
		_, r, err := scanPlace(rows)
		if err != nil {
			return err
		}
		m, ok := r.message()
		if found = ok && !r.discarded; found {
			text := store.MessageText(m)
			p = store.Passage{SessionID: id, Seq: from.seq, MessageID: m.ID, Text: text, Found: s.query.Found(text), At: m.CreatedAt}
		}
		return nil
	})
	return p, found, err
}

// entry reads an entry.
func (s *search) entry(ctx context.Context, c *conn, from candidate) (p store.Passage, found bool, err error) {
	err = c.each(ctx, selectEntry+"AND e.version = k.version WHERE k.id = ?", []any{from.n}, func(rows *rows) error {
		e, err := readEntry(rows)
		found = true
		p = store.Passage{
			Owner: from.owner, Key: e.Key, Version: e.Version,
			Text: store.EntryText(e.Value), Found: s.query.Found(store.EntryWords(e.Key, e.Value)), At: e.UpdatedAt,
		}
		return err
	})
	return p, found, err
}
