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

// Check folds every log and holds against it what is kept of each session, the
// index of words and the marks of embedders against the texts they are of, and
// rows against those they belong to. Each session is read at one moment.
func (s *Store) Check(ctx context.Context, p store.Progress) (problems []string, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	round, err := s.round(ctx)
	if err != nil {
		return nil, err
	}
	for i, one := range round.sessions {
		p.Report(i, round.total())
		mendable, others, err := s.checkSession(ctx, one)
		if err != nil {
			return nil, err
		}
		problems = append(problems, one.about(slices.Concat(mendable, others))...)
	}
	for i, log := range round.logs {
		p.Report(len(round.sessions)+i, round.total())
		for _, check := range []func(context.Context, int64) ([]string, error){s.checkIndex, s.checkMarks} {
			found, err := check(ctx, log)
			if err != nil {
				return nil, err
			}
			problems = append(problems, found...)
		}
	}
	found, err := s.checkMemories(ctx)
	if err != nil {
		return nil, err
	}
	problems = append(problems, found...)
	if found, err = s.strays(ctx); err != nil {
		return nil, err
	}
	p.Report(round.total(), round.total())
	return append(problems, found...), nil
}

// round is everything a doctor looks at, one after the other.
type round struct {
	sessions []patient
	logs     []int64
}

func (r round) total() int { return len(r.sessions) + len(r.logs) }

// patient is a session to look at.
type patient struct {
	SID int64
	Ref store.Ref
}

// about names the session in what is said of it.
func (p patient) about(texts []string) []string {
	said := make([]string, len(texts))
	for i, text := range texts {
		said[i] = fmt.Sprintf("session %s of %s: %s", p.Ref.ID, p.Ref.Tenant, text)
	}
	return said
}

// round lists all sessions, and all logs that are or should be indexed.
func (s *Store) round(ctx context.Context) (round, error) {
	var r round
	err := s.consistent(ctx, func(tx pgx.Tx) error {
		r = round{}
		rows, err := tx.Query(ctx, `SELECT sid, tenant, id FROM sessions ORDER BY tenant, id`)
		if err != nil {
			return err
		}
		var p patient
		_, err = pgx.ForEachRow(rows, []any{&p.SID, &p.Ref.Tenant, &p.Ref.ID}, func() error {
			r.sessions = append(r.sessions, p)
			return nil
		})
		if err != nil {
			return err
		}
		rows, err = tx.Query(ctx, `SELECT log FROM lineage UNION SELECT log FROM indexed UNION SELECT log FROM passages ORDER BY log`)
		if err == nil {
			r.logs, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		}
		return err
	})
	return r, err
}

// checkSession says what is wrong with a session: what follows from its log
// and can be mended, and what cannot.
func (s *Store) checkSession(ctx context.Context, p patient) (mendable, others []string, err error) {
	err = s.consistent(ctx, func(tx pgx.Tx) error {
		e, err := examine(ctx, tx, p.Ref, p.SID)
		if err == nil {
			mendable, others = e.mendable, e.others
		}
		return err
	})
	switch {
	case errors.Is(err, session.ErrNotFound): // deleted meanwhile
		return nil, nil, nil
	case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrNewerFormat):
		return nil, []string{err.Error()}, nil
	}
	return mendable, others, err
}

// strays are rows that belong to nobody. They hold what somebody once wrote
// and stay where they are.
func (s *Store) strays(ctx context.Context) (problems []string, err error) {
	const unneeded = `NOT EXISTS (SELECT 1 FROM sessions s WHERE s.sid = c.log) AND NOT EXISTS (SELECT 1 FROM lineage l WHERE l.log = c.log AND l.upto_seq >= `
	err = s.consistent(ctx, func(tx pgx.Tx) error {
		problems = nil
		for _, sql := range []string{
			`SELECT DISTINCT 'log ' || c.log || ' belongs to no session and no fork needs it' FROM changes c WHERE ` + unneeded + `c.seq)`,
			`SELECT DISTINCT 'commits of log ' || c.log || ' belong to no session and no fork needs them' FROM seals c WHERE ` + unneeded + `c.first_seq)`,
			`SELECT DISTINCT 'refusals of log ' || c.log || ' belong to no session and no fork needs them' FROM discards c WHERE ` + unneeded + `c.from_seq)`,
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
