package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Repair builds anew what follows from logs: heads, headers, the columns of
// rows, discards, takings, the index of words and the marks of embedders. Each
// damaged session is examined again with its row locked, and repaired in that
// transaction.
func (s *Store) Repair(ctx context.Context, p store.Progress) (repaired []string, err error) {
	ctx = unbounded(ctx)
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	all, err := s.inventory(ctx)
	if err != nil {
		return nil, err
	}
	for i, one := range all.sessions {
		p.Report(i, all.total())
		wrong, _, err := s.checkSession(ctx, one)
		if err == nil && len(wrong) > 0 {
			wrong, err = s.repairSession(ctx, one)
		}
		if err != nil {
			return repaired, err
		}
		repaired = append(repaired, one.name(wrong)...)
	}
	for i, log := range all.logs {
		p.Report(len(all.sessions)+i, all.total())
		for _, repair := range []func(context.Context, int64) ([]string, error){s.repairLog, s.repairMarks} {
			wrong, err := repair(ctx, log)
			if err != nil {
				return repaired, err
			}
			repaired = append(repaired, wrong...)
		}
	}
	cells, err := s.repairCells(ctx)
	if err != nil {
		return repaired, err
	}
	repaired = append(repaired, cells...)
	entries, err := s.repairMemories(ctx)
	p.Report(all.total(), all.total())
	return append(repaired, entries...), err
}

// repairSession repairs what can be repaired of a session and returns what it
// repaired.
func (s *Store) repairSession(ctx context.Context, p storedSession) (repaired []string, err error) {
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		// Reads after the lock must see what was committed before it.
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT 1 FROM sessions WHERE sid = $1 FOR UPDATE`, p.SID); err != nil {
				return err
			}
			e, err := examine(ctx, tx, p.Ref, p.SID)
			if err != nil {
				return err
			}
			repaired = e.repairable
			if len(repaired) == 0 {
				return nil
			}
			s.config.OnWrite("before repair")
			err = e.repair(ctx, tx)
			s.config.OnWrite("after repair")
			return err
		})
	})
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNewerFormat) {
		return nil, nil // deleted, or beyond repair
	}
	if err == nil && len(repaired) > 0 {
		s.announce(p.Ref)
	}
	return repaired, err
}

// repair writes everything that follows from the log.
func (e *examination) repair(ctx context.Context, tx pgx.Tx) error {
	for _, part := range []func(context.Context, pgx.Tx) error{e.repairSnapshots, e.repairRow, e.repairTags, e.repairDiscards, e.repairInbox} {
		if err := part(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) repairSnapshots(ctx context.Context, tx pgx.Tx) error {
	versions := slices.Collect(maps.Keys(e.snapshots))
	if _, err := tx.Exec(ctx, `DELETE FROM snapshots WHERE sid = $1 AND version <> ALL ($2)`, e.sid, versions); err != nil {
		return err
	}
	for _, s := range e.snapshots {
		if _, err := tx.Exec(ctx, `INSERT INTO snapshots (sid, version, seq, head) VALUES ($1, $2, $3, $4)
			ON CONFLICT (sid, version) DO UPDATE SET seq = excluded.seq, head = excluded.head`, e.sid, s.version, s.seq, s.head); err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) repairRow(ctx context.Context, tx pgx.Tx) error {
	args, err := e.rowArgs()
	if err != nil {
		return err
	}
	last, shown := e.last.Info(), e.info()
	args["tail_rows"] = nil
	if e.whole.HasTail() && (shown.Task != nil || shown.Workflow != nil || last.Task != nil || last.Workflow != nil) {
		if args["tail_rows"], err = (tailRows{Task: shown.Task, Workflow: shown.Workflow}).encode(shown.ID); err != nil {
			return err
		}
	}
	set := []string{"header = @header", "header_sum = @header_sum", "tail_rows = @tail_rows"}
	for _, part := range rowParts {
		set = append(set, part.set())
	}
	if _, err = tx.Exec(ctx, `UPDATE sessions SET `+strings.Join(set, ", ")+` WHERE sid = @sid`, args); err != nil {
		return err
	}
	columns := listingPart.columns
	_, err = tx.Exec(ctx, `INSERT INTO listing (sid, `+strings.Join(columns, ", ")+`) VALUES (@sid, @`+strings.Join(columns, ", @")+`)
		ON CONFLICT (sid) DO UPDATE SET `+listingPart.set(), args)
	return err
}

func (e *examination) repairDiscards(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `DELETE FROM discards WHERE log = $1`, e.sid); err != nil {
		return err
	}
	for _, d := range e.discards() {
		if _, err := tx.Exec(ctx, `INSERT INTO discards (log, from_seq, to_seq) VALUES ($1, $2, $3)`, e.sid, d.From, d.To); err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) repairInbox(ctx context.Context, tx pgx.Tx) error {
	var items []string
	var seqs []int64
	for item, seq := range e.takings() {
		items, seqs = append(items, item), append(seqs, seq)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM takings WHERE sid = $1`, e.sid); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO takings (sid, item_id, seq) SELECT i.sid, i.item_id, t.seq FROM inbox i
		JOIN unnest($2::text[], $3::bigint[]) AS t (item_id, seq) ON t.item_id = i.item_id WHERE i.sid = $1`, e.sid, items, seqs); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE inbox i SET taken = EXISTS (SELECT 1 FROM takings t WHERE t.sid = i.sid AND t.item_id = i.item_id) WHERE i.sid = $1`, e.sid)
	return err
}

// repairLog builds the index of a log anew if anything is wrong with it.
func (s *Store) repairLog(ctx context.Context, log int64) (wrong []string, err error) {
	wrong, err = s.checkIndex(ctx, log)
	if err != nil || len(wrong) == 0 {
		return nil, err
	}
	return wrong, s.reindexLog(ctx, log)
}
