package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Repair builds anew what follows from logs: heads, headers, the columns of
// rows, refused stretches, takings, the index of words and how far embedders
// have come. Each session is examined once more with its row locked and mended
// in that transaction.
func (s *Store) Repair(ctx context.Context, p store.Progress) (mended []string, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	round, err := s.round(ctx)
	if err != nil {
		return nil, err
	}
	for i, one := range round.sessions {
		p.Report(i, round.total())
		wrong, _, err := s.checkSession(ctx, one)
		if err == nil && len(wrong) > 0 {
			wrong, err = s.mendSession(ctx, one)
		}
		if err != nil {
			return mended, err
		}
		mended = append(mended, one.about(wrong)...)
	}
	for i, log := range round.logs {
		p.Report(len(round.sessions)+i, round.total())
		for _, mend := range []func(context.Context, int64) ([]string, error){s.mendLog, s.mendMarks} {
			wrong, err := mend(ctx, log)
			if err != nil {
				return mended, err
			}
			mended = append(mended, wrong...)
		}
	}
	entries, err := s.mendMemories(ctx)
	p.Report(round.total(), round.total())
	return append(mended, entries...), err
}

// mendSession mends what can be mended of a session and says what that was.
func (s *Store) mendSession(ctx context.Context, p patient) (mended []string, err error) {
	err = s.again(ctx, func(conn *pgx.Conn) error {
		// What is read after the lock is what was committed before it.
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT 1 FROM sessions WHERE sid = $1 FOR UPDATE`, p.SID); err != nil {
				return err
			}
			e, err := examine(ctx, tx, p.Ref, p.SID)
			if err != nil {
				return err
			}
			mended = e.mendable
			if len(mended) == 0 {
				return nil
			}
			s.config.OnWrite("before repair")
			err = e.mend(ctx, tx)
			s.config.OnWrite("after repair")
			return err
		})
	})
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNewerFormat) {
		return nil, nil // it is gone, or not to be mended
	}
	if err == nil && len(mended) > 0 {
		s.announce(p.Ref)
	}
	return mended, err
}

// mend writes everything that follows from the log.
func (e *examination) mend(ctx context.Context, tx pgx.Tx) error {
	for _, part := range []func(context.Context, pgx.Tx) error{e.mendSnapshots, e.mendRow, e.mendDiscards, e.mendInbox} {
		if err := part(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

func (e *examination) mendSnapshots(ctx context.Context, tx pgx.Tx) error {
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

func (e *examination) mendRow(ctx context.Context, tx pgx.Tx) error {
	args, err := e.rowArgs()
	if err != nil {
		return err
	}
	last, shown := e.last.Info(), e.info()
	args["tail_rows"] = nil
	if e.whole.HasTail() && (shown.Task != nil || shown.Workflow != nil || last.Task != nil || last.Workflow != nil) {
		if args["tail_rows"], err = json.Marshal(tailRows{Task: shown.Task, Workflow: shown.Workflow}); err != nil {
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

func (e *examination) mendDiscards(ctx context.Context, tx pgx.Tx) error {
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

func (e *examination) mendInbox(ctx context.Context, tx pgx.Tx) error {
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

// mendLog builds the index of a log anew if anything is wrong with it.
func (s *Store) mendLog(ctx context.Context, log int64) (wrong []string, err error) {
	wrong, err = s.checkIndex(ctx, log)
	if err != nil || len(wrong) == 0 {
		return nil, err
	}
	return wrong, s.reindexLog(ctx, log)
}
