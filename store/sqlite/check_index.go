package sqlite

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"

	codes "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/store"
)

// checkIndex compares the index of words with the texts.
func (s *Store) checkIndex(ctx context.Context) (problems []string, err error) {
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		for _, look := range []func(context.Context, *conn) ([]string, error){checkMessageWords, checkEntryWords} {
			found, err := look(ctx, c)
			if isCode(err, codes.SQLITE_CORRUPT) {
				found, err = []string{fmt.Sprintf("the index of words cannot be read: %v", err)}, nil
			}
			if err != nil {
				return err
			}
			problems = append(problems, found...)
		}
		return nil
	})
	return problems, err
}

// tally is a set of tokens: how many there are and the sum of their hashes.
// Two sets that differ have the same tally by a chance of one in 2⁶⁴.
type tally struct {
	tokens int
	sum    uint64
}

func (t tally) with(seed maphash.Seed, token string) tally {
	return tally{t.tokens + 1, t.sum + maphash.String(seed, token)}
}

func tallyOf(seed maphash.Seed, tokens string) tally {
	var t tally
	for token := range strings.FieldsSeq(tokens) {
		t = t.with(seed, token)
	}
	return t
}

// comparison compares an index of words with what it should hold.
type comparison struct {
	what                  string
	seed                  maphash.Seed
	rows                  map[int64]tally // of the index, not compared yet
	missing, wrong, stray int
}

// compareTerms reads an index back from its terms.
func (c *conn) compareTerms(ctx context.Context, what, query string) (*comparison, error) {
	cmp := &comparison{what: what, seed: maphash.MakeSeed(), rows: map[int64]tally{}}
	err := c.each(ctx, query, nil, func(rows *rows) error {
		var n int64
		var term string
		err := rows.Scan(&term, &n)
		cmp.rows[n] = cmp.rows[n].with(cmp.seed, term)
		return err
	})
	return cmp, err
}

// expect compares one row and removes it. There and right tell of its row in
// passages.
func (cmp *comparison) expect(n int64, tokens string, there, right bool) {
	have, ok := cmp.rows[n]
	switch {
	case !ok || !there:
		cmp.missing++
	case !right || have != tallyOf(cmp.seed, tokens):
		cmp.wrong++
	}
	delete(cmp.rows, n)
}

func (cmp *comparison) problems() []string {
	cmp.stray = max(cmp.stray, len(cmp.rows))
	var list []string
	for _, found := range []struct {
		n   int
		how string
	}{{cmp.missing, "lacks"}, {cmp.wrong, "has other words for"}, {cmp.stray, "has too many rows for"}} {
		if found.n > 0 {
			list = append(list, fmt.Sprintf("the index of words %s %d %s", found.how, found.n, cmp.what))
		}
	}
	return list
}

func checkMessageWords(ctx context.Context, c *conn) ([]string, error) {
	cmp, err := c.compareTerms(ctx, "messages", "SELECT term, doc FROM message_terms")
	if err != nil {
		return nil, err
	}
	mark, err := c.mark(ctx)
	if err != nil {
		return nil, err
	}
	left, err := c.unindexed(ctx)
	if err != nil {
		return nil, err
	}
	if left < 0 {
		return []string{fmt.Sprintf("the index of words ends at change %d, the log at %d", mark, mark+left)}, nil
	}
	indexed := int64(0)
	for after := int64(0); after < mark; {
		part, err := c.partAfter(ctx, after, maxPart)
		if err != nil {
			return nil, err
		}
		known, err := c.passagesIn(ctx, after, min(part.upTo, mark))
		if err != nil {
			return nil, err
		}
		for _, p := range part.passages {
			if p.n > mark {
				break
			}
			listed, there := known[p.n]
			if there {
				indexed++
			}
			listed.tokens = p.tokens
			cmp.expect(p.n, p.tokens, there, listed == p)
		}
		after = part.upTo
	}
	var all int64
	if _, err := c.one(ctx, "SELECT count(*) FROM passages", nil, &all); err != nil {
		return nil, err
	}
	cmp.stray = int(all - indexed)
	return cmp.problems(), nil
}

// passagesIn reads what the index knows of the messages between two changes.
func (c *conn) passagesIn(ctx context.Context, after, upTo int64) (map[int64]passage, error) {
	known := map[int64]passage{}
	err := c.each(ctx, "SELECT n, log, seq, at, trace FROM passages WHERE n > ? AND n <= ?", []any{after, upTo}, func(rows *rows) error {
		var p passage
		err := rows.Scan(&p.n, &p.log, &p.seq, &p.at, &p.trace)
		known[p.n] = p
		return err
	})
	return known, err
}

func checkEntryWords(ctx context.Context, c *conn) ([]string, error) {
	cmp, err := c.compareTerms(ctx, "memories", "SELECT term, doc FROM entry_terms")
	if err != nil {
		return nil, err
	}
	err = c.eachEntry(ctx, func(key int64, o store.Owner, e store.Entry) {
		cmp.expect(key, entryTokens(o, e), true, true)
	})
	return cmp.problems(), err
}

// eachEntry reads the newest entry of every key.
func (c *conn) eachEntry(ctx context.Context, visit func(key int64, o store.Owner, e store.Entry)) error {
	return c.each(ctx, `SELECT k.id, k.tenant, k.scope, k.owner, k.name, e.value
FROM memory_keys k JOIN memory_entries e ON e.key = k.id AND e.version = k.version`, nil, func(rows *rows) error {
		var key int64
		var o store.Owner
		var e store.Entry
		var value []byte
		if err := rows.Scan(&key, &o.Tenant, &o.Scope, &o.Name, &e.Key, &value); err != nil {
			return err
		}
		e.Value = value
		visit(key, o, e)
		return nil
	})
}
