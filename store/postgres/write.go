package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// write is one request that changes a session: statements sent together, which
// PostgreSQL runs as one transaction. The first one after the locks decides: it
// returns a row if the write is admitted, and puts the write's id on the
// session's row. Later ones find the session by that id, so they do nothing if
// the write was refused. Most writes are the deciding statement alone.
type write struct {
	name  string // in write points
	ref   store.Ref
	id    pgtype.UUID
	args  pgx.NamedArgs
	into  []any     // destinations of the deciding statement's row
	last  store.Sum // of the last record of the session, when it is written
	locks int       // how many statements only lock
	parts []part
}

// part is a statement of a write, with parameters of its own.
type part struct {
	statement
	args pgx.NamedArgs
}

func (s *Store) newWrite(name string, r store.Ref, args pgx.NamedArgs, into ...any) *write {
	w := &write{name: name, ref: r, id: newID(), args: args, into: into}
	args["tenant"], args["id"], args["write"], args["now"] = r.Tenant, r.ID, w.id, s.clock()
	return w
}

// newID names a write so that its outcome can be asked for.
func newID() pgtype.UUID { return pgtype.UUID{Bytes: uuid.New(), Valid: true} }

// mine is the session's row, if this write was admitted.
const mine = `(SELECT * FROM sessions WHERE tenant = @tenant AND id = @id AND write_id = @write) m`

func (w *write) add(st statement, args pgx.NamedArgs) {
	w.parts = append(w.parts, part{statement: st, args: args})
}

// send makes the request and reports whether it was admitted. It retries where
// that is safe. If the answer was lost the error is an answerLostError, and the
// caller must ask for the outcome.
func (s *Store) send(ctx context.Context, w *write) (admitted bool, err error) {
	var failed error
	err = s.retryWhile(ctx, safeToRepeat, func() error {
		failed = s.enqueue(ctx, w, &admitted)
		return failed
	})
	if err != nil && answerLost(failed) {
		return false, &answerLostError{failed}
	}
	return admitted, err
}

// answerLostError is a connection that was lost during a write.
type answerLostError struct{ err error }

func (e *answerLostError) Error() string { return e.err.Error() }

func (w *write) sendOn(ctx context.Context, conn *pgx.Conn, admitted *bool) error {
	if len(w.parts) == 1 {
		only := w.parts[0]
		return setAdmitted(admitted, conn.QueryRow(ctx, only.sql, only.values(only.args, w.args)...).Scan(w.into...))
	}
	var batch pgx.Batch
	w.queue(&batch)
	results := conn.SendBatch(ctx, &batch)
	return closeBatch(results, w.receive(results, admitted))
}

// queue adds the statements of a write to a request.
func (w *write) queue(batch *pgx.Batch) {
	for _, p := range w.parts {
		batch.Queue(p.sql, p.values(p.args, w.args)...)
	}
}

// receive reads what the statements of a write return.
func (w *write) receive(results pgx.BatchResults, admitted *bool) error {
	for range w.locks {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	if err := setAdmitted(admitted, results.QueryRow().Scan(w.into...)); err != nil {
		return err
	}
	for range len(w.parts) - w.locks - 1 {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	return nil
}

// setAdmitted decides by the deciding statement's row whether a write was
// admitted. No row is no error.
func setAdmitted(admitted *bool, err error) error {
	if *admitted = err == nil; errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// closeBatch returns how a batch ended. Its transaction ends with the last
// statement, so only Close tells.
func closeBatch(results pgx.BatchResults, err error) error {
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

// admitted is the condition under which a write is made; admission.State says
// why not. Nobody else has written since the writer loaded the session, and its
// lease, or that it has none, is in order.
const admitted = `tenant = @tenant AND id = @id AND agent_id = @agent AND version = @of_version::bigint - 1 AND last_seq = @base AND last_sum = @base_sum AND NOT unreadable
	AND CASE WHEN @fence::bigint = 0 THEN NOT ` + held + ` ELSE lease_token = @fence::bigint AND NOT lease_ended END`

// admit adds what the condition compares.
func admit(args pgx.NamedArgs, next session.Session, fence int64, base store.Sum) {
	args["agent"], args["of_version"], args["base"], args["fence"] = next.AgentID(), next.Version()+1, session.Base(next), fence
	args["base_sum"] = int64(base)
}

// maxTries bounds how often a write is refused for a reason that is gone when
// refusal looks for it, as when a lease runs out in between.
const maxTries = 100

// sendUntilDecided sends a write until it is admitted or refusal finds a reason
// why not. Build gets the sum of the last record of the session. A session that
// was loaded here has it; of any other it is read first. Without a reason a
// snapshot may be due, or the sum may be that of another store, so each try
// builds the write again.
func (s *Store) sendUntilDecided(ctx context.Context, next session.Session, fence int64, build func(store.Sum) (*write, error)) (*write, error) {
	r := store.RefOf(next)
	known, ok := session.BaseSum(next)
	base := store.Sum(known)
	if !ok {
		var err error
		if base, err = s.refusal(ctx, next, fence); err != nil {
			return nil, err
		}
	}
	for range maxTries {
		w, err := build(base)
		if err != nil {
			return nil, err
		}
		admitted, err := s.send(ctx, w)
		if err != nil {
			return w, err
		}
		if admitted {
			s.announce(r)
			return w, nil
		}
		if base, err = s.refusal(ctx, next, fence); err != nil {
			return nil, err
		}
		s.snapshotsDue.set(r, true)
	}
	return nil, fmt.Errorf("write session %s: other writers were faster %d times, try again", r.ID, maxTries)
}

// refusal returns why a write is not admitted, nil where it would be by now, and
// the sum of the session's last record.
func (s *Store) refusal(ctx context.Context, next session.Session, fence int64) (last store.Sum, _ error) {
	r := store.RefOf(next)
	var l leaseRow
	var agent string
	var version, lastSeq int64
	var format int
	var header []byte
	var damaged bool
	err := s.row(ctx, r, `SELECT agent_id, version, last_seq, last_sum, format, header, unreadable, `+leaseColumns+` FROM sessions`,
		&agent, &version, &lastSeq, &last, &format, &header, &damaged, &l.token, &l.holder, &l.until, &l.ended, &l.live)
	if err != nil {
		return 0, err
	}
	have := admission.State{AgentID: agent, Version: version, LastSeq: lastSeq, Lease: l.lease(), Live: l.isLive}
	if damaged {
		have.Damage = damage(r.ID, format, header)
	}
	return last, have.Admit(next, fence)
}

// damage returns why a session's row cannot be read.
func damage(id string, format int, header []byte) error {
	if format > session.FormatVersion {
		return &session.NewerFormatError{What: "format version", Have: fmt.Sprint(format), Know: fmt.Sprint(session.FormatVersion)}
	}
	if _, err := session.DecodeHeader(header); err != nil {
		return store.Unreadable(id, "header", err)
	}
	return &session.CorruptError{ID: id, Path: "header", Reason: "it does not match its format or checksum"}
}

// row reads columns of a session's row, or ErrNotFound. It adds the condition
// that names the session to the statement.
func (s *Store) row(ctx context.Context, r store.Ref, sql string, into ...any) error {
	args := pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID, "now": s.clock()}
	return s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
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

// resolveFor bounds how long a store asks for the outcome of a write, even if
// the caller has given up.
const resolveFor = 3 * time.Second

// outcome is what became of a write whose answer was lost.
type outcome int

const (
	unknown outcome = iota // it may still be running
	made
	replaced // another write is in its place
)

// ask runs a statement that finds the outcome of a write, even if the caller
// has given up. It locks the session's row first, which waits for the write if
// that still runs. The question is a second statement, because a statement sees
// what was there when it began.
func (s *Store) ask(ctx context.Context, w *write, sql string, args pgx.NamedArgs) outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveFor)
	defer cancel()
	maps.Copy(args, pgx.NamedArgs{"tenant": w.ref.Tenant, "id": w.ref.ID, "write": w.id})
	answer := unknown
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var batch pgx.Batch
		batch.Queue(`SELECT 1 FROM sessions WHERE tenant = @tenant AND id = @id FOR SHARE`, args)
		batch.Queue(sql, args)
		results := conn.SendBatch(ctx, &batch)
		_, err := results.Exec()
		if err == nil {
			err = results.QueryRow().Scan(&answer)
		}
		return closeBatch(results, err)
	})
	if err != nil {
		return unknown
	}
	if answer == made {
		s.announce(w.ref)
	}
	return answer
}

// askCommit finds the outcome of a save or a creation: the commit of its version
// has its id, or that of another write.
func (s *Store) askCommit(ctx context.Context, w *write, version int64) outcome {
	return s.ask(ctx, w, `SELECT coalesce((SELECT CASE WHEN k.write_id = @write THEN 1 ELSE 2 END
		FROM sessions s`+commitAt+` WHERE s.tenant = @tenant AND s.id = @id), 0)`,
		pgx.NamedArgs{"version": version})
}

// askAppend finds the outcome of an append, and the lease that was taken with
// it. Its id is on the session's row until the next save or append.
func (s *Store) askAppend(ctx context.Context, w *write, lease *leaseRequest) outcome {
	answer := s.ask(ctx, w, `SELECT coalesce((SELECT CASE WHEN write_id = @write THEN 1 ELSE 0 END
		FROM sessions WHERE tenant = @tenant AND id = @id), 0)`, pgx.NamedArgs{})
	if answer == made && lease != nil {
		l, err := s.findTaken(ctx, w.ref, pgx.NamedArgs{"lease_id": w.id}, findLease)
		if err != nil {
			return unknown
		}
		lease.taken = l
	}
	return answer
}
