package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

var _ store.Doctors = (*Store)(nil)

// Check folds every log and compares it with what is stored of each session. It
// compares the index of words and the marks of embedders with their texts, and
// looks for rows that belong to nothing. Each session is read in one snapshot
// of the database.
func (s *Store) Check(ctx context.Context, p store.Progress) (problems []string, err error) {
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
		repairable, others, err := s.checkSession(ctx, one)
		if err != nil {
			return nil, err
		}
		problems = append(problems, one.name(slices.Concat(repairable, others))...)
	}
	for i, log := range all.logs {
		p.Report(len(all.sessions)+i, all.total())
		for _, check := range []func(context.Context, int64) ([]string, error){s.checkIndex, s.checkMarks} {
			found, err := check(ctx, log)
			if err != nil {
				return nil, err
			}
			problems = append(problems, found...)
		}
	}
	for _, check := range []func(context.Context) ([]string, error){s.checkMemories, s.checkCells, s.orphans} {
		found, err := check(ctx)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	p.Report(all.total(), all.total())
	return problems, nil
}

// CheckSession lists what is wrong with one session.
func (s *Store) CheckSession(ctx context.Context, r store.Ref) ([]string, error) {
	ctx = unbounded(ctx)
	if err := s.usable(ctx, r.Check()); err != nil {
		return nil, err
	}
	one := storedSession{Ref: r}
	err := s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT sid FROM sessions WHERE tenant = $1 AND id = $2`, r.Tenant, r.ID).Scan(&one.SID)
		if errors.Is(err, pgx.ErrNoRows) {
			return session.NotFound(r.ID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	repairable, others, err := s.checkSession(ctx, one)
	return one.name(slices.Concat(repairable, others)), err
}

// Warnings lists settings of the server with which it may lose what it has
// acknowledged.
func (s *Store) Warnings(ctx context.Context) (warnings []string, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off' ORDER BY name`)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		warnings = nil
		for _, name := range names {
			warnings = append(warnings, fmt.Sprintf("PostgreSQL has %s = off: %s", name, unsafeSettings[name]))
		}
		return err
	})
	return warnings, err
}

// unsafeSettings says what each of these settings costs when it is off.
var unsafeSettings = map[string]string{
	"fsync":              "a machine that loses power may damage the whole database",
	"full_page_writes":   "a machine that loses power may damage pages that were being written",
	"synchronous_commit": "a server that crashes may lose the last acknowledged writes",
}

// inventory lists everything that is checked.
type inventory struct {
	sessions []storedSession
	logs     []int64
}

func (v inventory) total() int { return len(v.sessions) + len(v.logs) }

// storedSession is a session to check.
type storedSession struct {
	SID int64
	Ref store.Ref
}

// name puts the session's name before each problem.
func (p storedSession) name(problems []string) []string {
	named := make([]string, len(problems))
	for i, problem := range problems {
		named[i] = fmt.Sprintf("session %s of %s: %s", p.Ref.ID, p.Ref.Tenant, problem)
	}
	return named
}

// inventory lists all sessions, and all logs that are or should be indexed.
func (s *Store) inventory(ctx context.Context) (inventory, error) {
	var v inventory
	err := s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		v = inventory{}
		rows, err := tx.Query(ctx, `SELECT sid, tenant, id FROM sessions ORDER BY tenant, id`)
		if err != nil {
			return err
		}
		var p storedSession
		_, err = pgx.ForEachRow(rows, []any{&p.SID, &p.Ref.Tenant, &p.Ref.ID}, func() error {
			v.sessions = append(v.sessions, p)
			return nil
		})
		if err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `SELECT log FROM lineage UNION SELECT log FROM indexed UNION SELECT log FROM passages ORDER BY log`)
		if err == nil {
			v.logs, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	return v, err
}

// checkSession returns what is wrong with a session: what can be repaired
// because it follows from the log, and what cannot.
func (s *Store) checkSession(ctx context.Context, p storedSession) (repairable, others []string, err error) {
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		e, err := examine(ctx, tx, p.Ref, p.SID)
		if err == nil {
			repairable, others = e.repairable, e.others
		}
		return err
	})
	switch {
	case errors.Is(err, session.ErrNotFound): // deleted meanwhile
		return nil, nil, nil
	case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrNewerFormat):
		return nil, []string{err.Error()}, nil
	}
	return repairable, others, err
}

// orphans finds rows that belong to nothing. They hold what somebody once wrote
// and are not removed.
func (s *Store) orphans(ctx context.Context) (problems []string, err error) {
	const unneeded = `NOT EXISTS (SELECT 1 FROM sessions s WHERE s.sid = c.log) AND NOT EXISTS (SELECT 1 FROM lineage l WHERE l.log = c.log AND l.upto_seq >= `
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		problems = nil
		for _, sql := range []string{
			`SELECT DISTINCT 'log ' || c.log || ' belongs to no session and no fork needs it' FROM changes c WHERE ` + unneeded + `c.seq)`,
			`SELECT DISTINCT 'commits of log ' || c.log || ' belong to no session and no fork needs them' FROM seals c WHERE ` + unneeded + `c.first_seq)`,
			`SELECT DISTINCT 'discards of log ' || c.log || ' belong to no session and no fork needs them' FROM discards c WHERE ` + unneeded + `c.from_seq)`,
			`SELECT DISTINCT 'vectors of log ' || v.log || ' are of no message' FROM message_vectors v
				WHERE NOT EXISTS (SELECT 1 FROM changes c WHERE c.log = v.log AND c.seq = v.seq AND c.kind = '` + messageAdded + `')`,
			`SELECT DISTINCT 'log ' || e.log || ' has the mark of an embedder, and is not there' FROM embedded e
				WHERE NOT EXISTS (SELECT 1 FROM lineage l WHERE l.log = e.log)`,
			`SELECT 'session ' || s.id || ' of ' || s.tenant || ': change ' || c.seq || ' lies outside its log' FROM sessions s
				JOIN lineage l ON l.sid = s.sid AND l.log = s.sid JOIN changes c ON c.log = s.sid WHERE c.seq <= l.after_seq`,
			`SELECT 'session ' || s.id || ' of ' || s.tenant || ': it has no log' FROM sessions s
				WHERE NOT EXISTS (SELECT 1 FROM lineage l WHERE l.sid = s.sid AND l.log = s.sid)`,
		} {
			rows, err := tx.Query(ctx, sql)
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			problems = append(problems, found...)
		}
		return nil
	})
	return problems, err
}
