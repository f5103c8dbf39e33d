package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// write is one request that changes a session: statements sent in one go,
// which PostgreSQL carries out as one transaction. The deciding one, the first
// but for locks, returns a row if the write is admitted and puts the write's
// id on the session's row; those after it find the session by that id, so that
// they do nothing if it was not.
type write struct {
	name       string // in write points
	ref        store.Ref
	id         string
	args       pgx.NamedArgs
	locks      int // how many statements only lock
	statements []statement
}

type statement struct {
	sql  string
	args pgx.NamedArgs // besides the write's
}

func (s *Store) newWrite(name string, r store.Ref, args pgx.NamedArgs) *write {
	w := &write{name: name, ref: r, id: uuid.NewString(), args: args}
	maps.Copy(w.args, pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID, "write": w.id, "now": s.clock()})
	return w
}

// mine is the session's row, if this write has it.
const mine = `(SELECT * FROM sessions WHERE tenant = @tenant AND id = @id AND write_id = @write::uuid) m`

func (w *write) add(sql string, args pgx.NamedArgs) {
	w.statements = append(w.statements, statement{sql: sql, args: args})
}

// send makes the request and reports whether it was admitted. It is tried
// again where that is safe; another failure is returned as it is, for the
// caller to learn the outcome.
func (s *Store) send(ctx context.Context, w *write) (admitted bool, err error) {
	var failed error
	err = s.insist(ctx, repeatable, func() error {
		failed = s.once(ctx, func(conn *pgx.Conn) error {
			s.config.OnWrite("before " + w.name)
			err := w.sendOn(ctx, conn, &admitted)
			s.config.OnWrite("after " + w.name)
			return err
		})
		return failed
	})
	if err != nil && broken(failed) {
		return false, &brokenError{failed}
	}
	return admitted, err
}

// brokenError is a lost connection with a write under way.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }

func (w *write) sendOn(ctx context.Context, conn *pgx.Conn, admitted *bool) error {
	var batch pgx.Batch
	for _, st := range w.statements {
		args := w.args
		if st.args != nil {
			args = maps.Clone(w.args)
			maps.Copy(args, st.args)
		}
		batch.Queue(st.sql, args)
	}
	results := conn.SendBatch(ctx, &batch)
	for range w.locks {
		if _, err := results.Exec(); err != nil {
			return ended(results, err)
		}
	}
	var sid int64
	err := results.QueryRow().Scan(&sid)
	if *admitted = err == nil; errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return ended(results, err)
}

// ended is how a batch ended. Its transaction ends with the last statement, so
// that only Close tells.
func ended(results pgx.BatchResults, err error) error {
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

// writable is the reason why a session cannot be written at all.
func (s *Store) writable(ctx context.Context, next session.Session, keys []store.Key) error {
	if next.IsZero() {
		return &session.InvalidError{Field: "session", Reason: "is the zero session"}
	}
	if err := s.open(ctx, store.RefOf(next)); err != nil {
		return err
	}
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
	}
	return nil
}

// admission lets the writer of a version on: nobody else has written since it
// loaded the session, and its lease, or that it has none, is in order.
const admission = `tenant = @tenant AND id = @id AND agent_id = @agent AND version = @version AND last_seq = @base
	AND format = @format AND head_sum = sha256(head)
	AND CASE WHEN @fence::bigint = 0 THEN NOT ` + held + ` ELSE lease_token = @fence::bigint AND NOT lease_ended END`

func admissionArgs(next session.Session, fence int64) pgx.NamedArgs {
	return pgx.NamedArgs{
		"agent": next.AgentID(), "version": next.Version(), "base": next.Base(), "fence": fence, "format": session.FormatVersion,
	}
}

// manyTries bounds how often a write is refused for a reason that is gone when
// it is looked for, as when a lease runs out in between.
const manyTries = 100

// settle sends a write until it is admitted or there is a reason why not.
func (s *Store) settle(ctx context.Context, next session.Session, fence int64, w *write) error {
	for range manyTries {
		admitted, err := s.send(ctx, w)
		if err != nil {
			return err
		}
		if admitted {
			s.ring(w.ref)
			return nil
		}
		if err := s.refusal(ctx, next, fence); err != nil {
			return err
		}
	}
	return fmt.Errorf("postgres: session %s: refused %d times for no reason that lasts", w.ref.ID, manyTries)
}

// refusal is the reason why a write is not admitted, by the checks in the
// order the contract fixes.
func (s *Store) refusal(ctx context.Context, next session.Session, fence int64) error {
	r := store.RefOf(next)
	var l leaseRow
	var agent string
	var version, last int64
	var format int
	var head []byte
	var whole bool
	err := s.row(ctx, r, `SELECT agent_id, version, last_seq, format, head, head_sum = sha256(head), `+leaseColumns+` FROM sessions`,
		&agent, &version, &last, &format, &head, &whole, &l.token, &l.holder, &l.until, &l.ended, &l.live)
	if err != nil {
		return err
	}
	if err := intact(r.ID, format, head, whole); err != nil {
		return err
	}
	if err := l.admit(r.ID, fence); err != nil {
		return err
	}
	conflict := &session.ConflictError{ID: r.ID}
	switch {
	case next.AgentID() != agent:
		conflict.Reason, conflict.Want, conflict.Have = session.ReasonReplaced, next.Version(), version
	case next.Version() != version:
		conflict.Reason, conflict.Want, conflict.Have = session.ReasonStale, next.Version(), version
	case next.Base() != last:
		conflict.Reason, conflict.Want, conflict.Have = session.ReasonOpenTail, next.Base(), last
	default:
		return nil
	}
	return conflict
}

// intact is the reason why a head cannot be built upon.
func intact(id string, format int, head []byte, whole bool) error {
	if format == session.FormatVersion && whole {
		return nil
	}
	if format > session.FormatVersion {
		return &session.NewerFormatError{What: "format version", Have: fmt.Sprint(format), Know: fmt.Sprint(session.FormatVersion)}
	}
	if _, err := decodeHead(id, head); err != nil {
		return err
	}
	return &session.CorruptError{ID: id, Path: "head", Reason: "it does not match its checksum"}
}

// row reads columns of a session's row, or ErrNotFound. The statement is
// completed with the condition that names the session.
func (s *Store) row(ctx context.Context, r store.Ref, sql string, into ...any) error {
	args := pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID, "now": s.clock()}
	return s.again(ctx, func(conn *pgx.Conn) error {
		return found(r, conn.QueryRow(ctx, sql+` WHERE tenant = @tenant AND id = @id`, args).Scan(into...))
	})
}

// found makes ErrNotFound of a session's row that is not there.
func found(r store.Ref, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return session.NotFound(r.ID)
	}
	return err
}

// resolveFor is how long the outcome of a write is asked for, also when the
// caller has gone.
const resolveFor = 3 * time.Second

// verdict is what became of a write whose connection was lost.
type verdict int

const (
	unknown verdict = iota // it may still be on its way
	made
	never // another write is in its place
)

// ask runs statements that tell the outcome of a write. The session's row is
// locked before, which waits for the write's end should it still be running;
// the question is a statement of its own, because one sees what was there when
// it began. It goes on when the caller has gone.
func (s *Store) ask(ctx context.Context, w *write, sql string, args pgx.NamedArgs) verdict {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveFor)
	defer cancel()
	maps.Copy(args, pgx.NamedArgs{"tenant": w.ref.Tenant, "id": w.ref.ID, "write": w.id})
	answer := unknown
	err := s.again(ctx, func(conn *pgx.Conn) error {
		var batch pgx.Batch
		batch.Queue(`SELECT 1 FROM sessions WHERE tenant = @tenant AND id = @id FOR SHARE`, args)
		batch.Queue(sql, args)
		results := conn.SendBatch(ctx, &batch)
		_, err := results.Exec()
		if err == nil {
			err = results.QueryRow().Scan(&answer)
		}
		return ended(results, err)
	})
	if err != nil {
		return unknown // no answer is an answer too
	}
	if answer == made {
		s.ring(w.ref)
	}
	return answer
}

// askCommit tells the outcome of a save or a creation by its commit: the one
// at its version has its id, or that of another write.
func (s *Store) askCommit(ctx context.Context, w *write, version int64) verdict {
	return s.ask(ctx, w, `SELECT coalesce((SELECT CASE WHEN c.write_id = @write::uuid THEN 1 ELSE 2 END
		FROM sessions s JOIN commits c ON c.log = s.sid WHERE s.tenant = @tenant AND s.id = @id AND c.version = @version), 0)`,
		pgx.NamedArgs{"version": version})
}

// askAppend tells the outcome of an append. Its id is on the session's row
// until the next save or append.
func (s *Store) askAppend(ctx context.Context, w *write) verdict {
	return s.ask(ctx, w, `SELECT coalesce((SELECT CASE WHEN write_id = @write::uuid THEN 1 ELSE 0 END
		FROM sessions WHERE tenant = @tenant AND id = @id), 0)`, pgx.NamedArgs{})
}
