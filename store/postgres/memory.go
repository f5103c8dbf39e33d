package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

var _ store.Memories = (*Store)(nil)

// The SQL conditions of all keys of an owner, and of one of them.
const (
	ofOwner = `m.tenant = @tenant AND m.scope = @scope AND m.owner = @owner`
	ofKey   = ofOwner + ` AND m.key = @key`
)

func ownerArgs(o store.Owner) pgx.NamedArgs {
	return pgx.NamedArgs{"tenant": o.Tenant, "scope": string(o.Scope), "owner": o.Name}
}

func keyArgs(o store.Owner, key string) pgx.NamedArgs {
	args := ownerArgs(o)
	args["key"] = key
	return args
}

// A write locks the key's row and is decided by what the row says then.
const (
	firstVersion = `INSERT INTO memories AS m (tenant, scope, owner, key, version, present, created_at, words, write_id)
		VALUES (@tenant, @scope, @owner, @key, 1, true, @at, @words, @write::uuid)
		ON CONFLICT (tenant, scope, owner, key) DO UPDATE SET version = m.version + 1, present = true,
			created_at = CASE WHEN m.present THEN m.created_at ELSE excluded.created_at END, words = excluded.words, write_id = excluded.write_id
		WHERE @want::bigint IS NULL OR NOT m.present RETURNING m.mid, m.version, m.created_at`

	nextVersion = `UPDATE memories m SET version = m.version + 1, words = @words, write_id = @write::uuid
		WHERE ` + ofKey + ` AND m.present AND m.version = @want::bigint RETURNING m.mid, m.version, m.created_at`

	// Both are completed with the new version and the tool call. The second
	// write of a tool call breaks a constraint and so writes nothing.
	withVersion = `, v AS (INSERT INTO memory_versions (mid, version, value, labels, expires_at, updated_at, session_id, write_id)
			SELECT k.mid, k.version, @value, @labels::bytea, @expires::timestamptz, @at, @session, @write::uuid FROM k),
		c AS (INSERT INTO memory_calls (mid, session_id, call_id, version) SELECT k.mid, @session, @call, k.version FROM k WHERE @call <> '')
		SELECT k.version, k.created_at FROM k`
)

// Remember writes the next version of an entry. If the connection is lost, the
// write of a tool call is repeated, which is safe. The store asks the database
// for the outcome of any other write, and returns UnknownOutcomeError with the
// key as ID where it gets no answer.
func (s *Store) Remember(ctx context.Context, o store.Owner, m store.Memo) (store.Entry, error) {
	if err := s.usable(ctx, o.Check()); err != nil {
		return store.Entry{}, err
	}
	m, err := m.Check()
	if err != nil {
		return store.Entry{}, err
	}
	r, err := s.newMemoWrite(o, m)
	if err != nil {
		return store.Entry{}, err
	}
	for range maxTries {
		entry, written, err := r.write(ctx)
		var lost *answerLostError
		switch {
		case errors.As(err, &lost):
			return r.ask(ctx, lost)
		case err != nil || written:
			return entry, err
		}
		if entry, done, err := r.refusal(ctx); done || err != nil {
			return entry, err
		}
	}
	return store.Entry{}, fmt.Errorf("remember entry %q: other writers were faster %d times, try again", m.Key, maxTries)
}

// memoWrite is one call of Remember.
type memoWrite struct {
	store *Store
	owner store.Owner
	memo  store.Memo
	id    string
	sql   string
	args  pgx.NamedArgs
}

func (s *Store) newMemoWrite(o store.Owner, m store.Memo) (*memoWrite, error) {
	labels, expires, err := labelColumns(m)
	r := &memoWrite{store: s, owner: o, memo: m, id: uuid.NewString(), args: keyArgs(o, m.Key)}
	maps.Copy(r.args, pgx.NamedArgs{
		"want": m.IfVersion, "at": m.At, "value": withSum(m.Value, m.Key), "session": m.SessionID, "call": m.CallID, "write": r.id,
		"words": hashes(store.Words(store.EntryWords(m.Key, m.Value))), "labels": labels, "expires": expires,
	})
	r.sql = `WITH k AS (` + firstVersion + `)` + withVersion
	if m.IfVersion != nil && *m.IfVersion > 0 {
		r.sql = `WITH k AS (` + nextVersion + `)` + withVersion
	}
	return r, err
}

// labelColumns are the labels of a memo as they are stored.
func labelColumns(m store.Memo) (labels []byte, expires *time.Time, err error) {
	if m.Labels == nil {
		return nil, nil, nil
	}
	raw, err := json.Marshal(m.Labels)
	return withSum(raw, m.Key), m.Labels.ExpiresAt, err
}

// write makes the request and reports whether it was admitted.
func (r *memoWrite) write(ctx context.Context) (entry store.Entry, written bool, err error) {
	s := r.store
	worth := safeToRepeat
	if r.memo.CallID != "" {
		worth = transient
	}
	var failed error
	err = s.retryWhile(ctx, worth, func() error {
		failed = s.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			entry, written = r.entry(), true
			s.config.OnWrite("before remember")
			err := conn.QueryRow(ctx, r.sql, r.args).Scan(&entry.Version, &entry.CreatedAt)
			s.config.OnWrite("after remember")
			if errors.Is(err, pgx.ErrNoRows) || calledTwice(err) {
				written, err = false, nil
			}
			return err
		})
		return failed
	})
	if err != nil {
		if answerLost(failed) {
			err = &answerLostError{failed}
		}
		return store.Entry{}, false, err
	}
	entry.CreatedAt = session.Instant(entry.CreatedAt)
	return entry, written, nil
}

func calledTwice(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && p.ConstraintName == calledOnce
}

// entry is the entry that the memo makes, without the columns that only the
// database knows.
func (r *memoWrite) entry() store.Entry {
	return store.Entry{Key: r.memo.Key, Value: r.memo.Value, Labels: r.memo.Labels.Clone(), UpdatedAt: r.memo.At, SessionID: r.memo.SessionID}
}

// refusal finds out why the write was not admitted: the tool call has written
// before, and gets that entry, or another version is there. It is not done if
// the reason is gone by now.
func (r *memoWrite) refusal(ctx context.Context) (entry store.Entry, done bool, err error) {
	s := r.store
	var have int64
	var called *int64
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, `SELECT CASE WHEN m.present THEN m.version ELSE 0 END, c.version FROM memories m
			LEFT JOIN memory_calls c ON c.mid = m.mid AND c.session_id = @session AND c.call_id = @call WHERE `+ofKey, r.args).Scan(&have, &called)
		if errors.Is(err, pgx.ErrNoRows) {
			have, called, err = 0, nil, nil
		}
		return err
	})
	switch {
	case err != nil:
		return store.Entry{}, false, err
	case called != nil:
		entry, err := admission.RepeatedEntry(r.memo.Key, *called, func(version int64) (store.Entry, bool, error) {
			return s.Entry(ctx, r.owner, r.memo.Key, version)
		})
		return entry, true, err
	}
	return store.Entry{}, false, admission.CheckEntryVersion(r.memo.Key, r.memo.IfVersion, have)
}

// ask finds out what became of a write whose answer was lost. It locks the
// key's row first, which waits for the write if that still runs.
func (r *memoWrite) ask(ctx context.Context, lost *answerLostError) (store.Entry, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveFor)
	defer cancel()
	entry := r.entry()
	err := r.store.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var batch pgx.Batch
		batch.Queue(`SELECT 1 FROM memories m WHERE `+ofKey+` FOR SHARE`, r.args)
		batch.Queue(`SELECT v.version, m.created_at FROM memories m JOIN memory_versions v ON v.mid = m.mid WHERE `+ofKey+`
			AND v.write_id = @write::uuid`, r.args)
		results := conn.SendBatch(ctx, &batch)
		_, err := results.Exec()
		if err == nil {
			err = results.QueryRow().Scan(&entry.Version, &entry.CreatedAt)
		}
		return closeBatch(results, err)
	})
	if err != nil {
		return store.Entry{}, &session.UnknownOutcomeError{ID: r.memo.Key, Err: lost.err}
	}
	entry.CreatedAt = session.Instant(entry.CreatedAt)
	return entry, nil
}

// Forget removes every version of an entry.
func (s *Store) Forget(ctx context.Context, o store.Owner, key string, ifVersion *int64) (bool, error) {
	if err := s.usable(ctx, o.Check(), store.CheckEntryKey(key)); err != nil {
		return false, err
	}
	args := keyArgs(o, key)
	args["want"], args["write"] = ifVersion, uuid.NewString()
	var have int64
	var mine bool
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var batch pgx.Batch
		batch.Queue(`SELECT 1 FROM memories m WHERE `+ofKey+` FOR UPDATE`, args)
		// What was there before; a second try finds what the first one did.
		batch.Queue(`SELECT CASE WHEN m.present THEN m.version ELSE 0 END, m.write_id = @write::uuid FROM memories m WHERE `+ofKey, args)
		batch.Queue(`UPDATE memories m SET present = false, words = '{}', write_id = @write::uuid
			WHERE `+ofKey+` AND m.present AND (@want::bigint IS NULL OR m.version = @want::bigint)`, args)
		batch.Queue(`DELETE FROM memory_versions v USING memories m WHERE v.mid = m.mid AND NOT m.present AND `+ofKey, args)
		s.config.OnWrite("before forget")
		results := conn.SendBatch(ctx, &batch)
		_, err := results.Exec()
		if err == nil {
			if err = results.QueryRow().Scan(&have, &mine); errors.Is(err, pgx.ErrNoRows) {
				have, mine, err = 0, false, nil
			}
		}
		err = closeBatch(results, err)
		s.config.OnWrite("after forget")
		return err
	})
	switch {
	case err != nil:
		return false, err
	case mine: // an earlier try forgot it
		return true, nil
	}
	if err := admission.CheckEntryVersion(key, ifVersion, have); err != nil {
		return false, err
	}
	return have > 0, nil
}

// ForgetAll removes all entries of an owner, or counts them.
func (s *Store) ForgetAll(ctx context.Context, o store.Owner, dry bool) (int, error) {
	if err := s.usable(ctx, o.Check()); err != nil {
		return 0, err
	}
	most := 0 // a second try, after an answer was lost, may find nothing left
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			n := 0
			if err := tx.QueryRow(ctx, `SELECT count(*) FROM memories m WHERE m.present AND `+ofOwner, ownerArgs(o)).Scan(&n); err != nil || dry {
				most = max(most, n)
				return err
			}
			s.config.OnWrite("before forget all")
			err := tx.QueryRow(ctx, `WITH gone AS (DELETE FROM memories m WHERE `+ofOwner+` RETURNING m.present)
				SELECT count(*) FROM gone WHERE present`, ownerArgs(o)).Scan(&n)
			s.config.OnWrite("after forget all")
			most = max(most, n)
			return err
		})
	})
	return most, err
}
