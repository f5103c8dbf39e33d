package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// checkIndex compares the index of a log with its messages: what is indexed
// must be right, and up to the mark everything must be indexed.
func (s *Store) checkIndex(ctx context.Context, log int64) (problems []string, err error) {
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		problems, err = compareIndex(ctx, tx, log)
		return err
	})
	return problems, err
}

func compareIndex(ctx context.Context, tx pgx.Tx, log int64) (problems []string, err error) {
	var mark, end int64
	err = tx.QueryRow(ctx, `SELECT coalesce((SELECT upto FROM indexed WHERE log = $1), 0), coalesce((SELECT max(seq) FROM changes WHERE log = $1), 0)`, log).Scan(&mark, &end)
	if err != nil {
		return nil, err
	}
	if mark > end {
		problems = append(problems, fmt.Sprintf("log %d: the index reaches change %d, and the log ends at %d", log, mark, end))
	}
	have, err := passagesOf(ctx, tx, log)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT seq, body FROM changes c WHERE log = $1 AND seq <= $2 AND kind = '`+messageAdded+`' AND `+notForgotten+` ORDER BY seq`, log, mark)
	if err != nil {
		return nil, err
	}
	var seq int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &body}, func() error {
		want, ok := passageOf(log, seq, body)
		if p, there := have[seq]; ok != there || ok && !p.is(want) {
			problems = append(problems, fmt.Sprintf("log %d: the words of change %d are not those of the index", log, seq))
		}
		delete(have, seq)
		return nil
	})
	for _, seq := range slices.Sorted(maps.Keys(have)) {
		problems = append(problems, fmt.Sprintf("log %d: the index has words of change %d, and should have none", log, seq))
	}
	return problems, err
}

func passagesOf(ctx context.Context, tx pgx.Tx, log int64) (map[int64]passage, error) {
	rows, err := tx.Query(ctx, `SELECT log, seq, at, trace, words FROM passages WHERE log = $1`, log)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[passage])
	bySeq := make(map[int64]passage, len(found))
	for _, p := range found {
		bySeq[p.Seq] = p
	}
	return bySeq, err
}

func (p passage) is(o passage) bool {
	return p.At.Equal(o.At) && p.Trace == o.Trace && slices.Equal(p.Words, o.Words)
}

// Reindex empties and fills the index of one log after the other. Meanwhile
// searches read the log itself. A log that is being deleted is left out.
func (s *Store) Reindex(ctx context.Context, p store.Progress) (int, error) {
	ctx = unbounded(ctx)
	if err := s.usable(ctx); err != nil {
		return 0, err
	}
	all, err := s.inventory(ctx)
	if err != nil {
		return 0, err
	}
	for i, log := range all.logs {
		p.Report(i, len(all.logs))
		if err := s.reindexLog(ctx, log); err != nil {
			return 0, err
		}
	}
	if _, err := s.repairMemories(ctx); err != nil {
		return 0, err
	}
	if err := s.rebuildCells(ctx); err != nil {
		return 0, err
	}
	p.Report(len(all.logs), len(all.logs))
	n := 0
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM passages) + (SELECT count(*) FROM memories WHERE present)`).Scan(&n)
	})
	return n, err
}

// reindexLog builds the index of a log anew.
func (s *Store) reindexLog(ctx context.Context, log int64) error {
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if err := lockLog(ctx, tx, log); err != nil {
				return err
			}
			for _, sql := range []string{`DELETE FROM passages WHERE log = $1`, `DELETE FROM indexed WHERE log = $1`} {
				if _, err := tx.Exec(ctx, sql, log); err != nil {
					return err
				}
			}
			return nil
		})
	})
	for more := true; err == nil && more; {
		err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
				if err := lockLog(ctx, tx, log); err != nil {
					return err
				}
				left, err := indexClaimed(ctx, tx, []int64{log})
				more = len(left) > 0
				return err
			})
		})
	}
	return err
}

// checkMemories compares the indexed words of entries with their texts.
func (s *Store) checkMemories(ctx context.Context) (problems []string, err error) {
	err = s.eachMemory(ctx, func(m memoryRow) error {
		if problem := m.problem(); problem != "" {
			problems = append(problems, m.about(problem))
		}
		return nil
	})
	return problems, err
}

// repairMemories indexes entries whose words are wrong.
func (s *Store) repairMemories(ctx context.Context) (repaired []string, err error) {
	err = s.eachMemory(ctx, func(m memoryRow) error {
		if m.problem() != wrongWords {
			return nil
		}
		changed := false
		err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error { // unless it was written meanwhile
			tag, err := conn.Exec(ctx, `UPDATE memories SET words = $1 WHERE mid = $2 AND version = $3 AND present = $4`, m.words(), m.MID, m.Version, m.Present)
			changed = tag.RowsAffected() > 0
			return err
		})
		if changed {
			repaired = append(repaired, m.about(wrongWords))
		}
		return err
	})
	return repaired, err
}

// memoryRow is a stored key with the value of its newest version.
type memoryRow struct {
	MID               int64
	Owner             store.Owner
	Key               string
	Version           int64
	Present           bool
	Words             []int64
	Value             []byte // nil: there is no such version
	Versions, Highest int64
}

const wrongWords = "the words of the entry are not those of the index"

func (m memoryRow) words() []int64 {
	if !m.Present {
		return []int64{}
	}
	value, _ := checked(m.Value, m.Key)
	return hashes(store.Words(store.EntryWords(m.Key, value)))
}

func (m memoryRow) problem() string {
	_, damage := checked(m.Value, m.Key)
	switch {
	case m.Present && m.Value == nil:
		return fmt.Sprintf("its newest version, %d, is not there", m.Version)
	case m.Present && damage != nil:
		return fmt.Sprintf("its newest version, %d: %v", m.Version, damage)
	case m.Highest > m.Version:
		return fmt.Sprintf("it has version %d, later than the newest, %d", m.Highest, m.Version)
	case !m.Present && m.Versions > 0:
		return "it is forgotten, and has versions"
	case !slices.Equal(m.Words, m.words()):
		return wrongWords
	}
	return ""
}

func (m memoryRow) about(text string) string {
	return fmt.Sprintf("entry %s of %s %s of %s: %s", m.Key, m.Owner.Scope, m.Owner.Name, m.Owner.Tenant, text)
}

// memoryPage is how many keys are read in one go.
const memoryPage = 200

// eachMemory calls visit for every key.
func (s *Store) eachMemory(ctx context.Context, visit func(memoryRow) error) error {
	for after := int64(0); ; {
		var page []memoryRow
		err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
			page, err = memoriesAfter(ctx, conn, after)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, m := range page {
			if err := visit(m); err != nil {
				return err
			}
		}
		after = page[len(page)-1].MID
	}
}

// memoriesAfter reads a page of keys.
func memoriesAfter(ctx context.Context, q querier, after int64) ([]memoryRow, error) {
	rows, err := q.Query(ctx, `SELECT m.mid, m.tenant, m.scope, m.owner, m.key, m.version, m.present, m.words, v.value,
			(SELECT count(*) FROM memory_versions o WHERE o.mid = m.mid), coalesce((SELECT max(o.version) FROM memory_versions o WHERE o.mid = m.mid), 0)
		FROM memories m LEFT JOIN memory_versions v ON v.mid = m.mid AND v.version = m.version
		WHERE m.mid > $1 ORDER BY m.mid LIMIT $2`, after, memoryPage)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, memoryRowOf)
}

// indexMemories writes the words of all entries. A damaged one stays as it is.
func indexMemories(ctx context.Context, tx pgx.Tx) error {
	for after := int64(0); ; {
		page, err := memoriesAfter(ctx, tx, after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, m := range page {
			if m.problem() == wrongWords {
				if _, err := tx.Exec(ctx, `UPDATE memories SET words = $1 WHERE mid = $2`, m.words(), m.MID); err != nil {
					return err
				}
			}
		}
		after = page[len(page)-1].MID
	}
}

func memoryRowOf(row pgx.CollectableRow) (memoryRow, error) {
	var m memoryRow
	err := row.Scan(&m.MID, &m.Owner.Tenant, &m.Owner.Scope, &m.Owner.Name, &m.Key, &m.Version, &m.Present, &m.Words, &m.Value, &m.Versions, &m.Highest)
	return m, err
}
