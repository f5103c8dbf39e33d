package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// The pieces of a write to the open tail. A write that begins an execution
// takes the lease too, and the lease keeps the write's id.
const (
	moveTail = `WITH s AS (UPDATE sessions SET last_seq = @last, live = live + @added, running = @running::boolean,
		at_work = @running::boolean OR live + @added > 0, due = @due::timestamptz, write_id = @write, unfolded = unfolded + @weight, last_sum = @last_sum::bigint`
	moveRows  = `, tail_rows = @tail_rows`
	listRows  = `, listed AS (UPDATE listing l SET task_status = @task_status, flow_status = @flow_status FROM s WHERE l.sid = s.sid)`
	takeLease = `, lease_token = nextval('lease_tokens'), lease_holder = @holder, lease_until = ` + leaseEnd + `, lease_ended = false, lease_id = @write`

	admitTail = ` WHERE ` + admitted + ` RETURNING sid, snap_version, snapshot_bytes, unfolded, ` + leaseColumns + ` AS lease_live)`
	leaseLeft = ` SELECT snap_version, snapshot_bytes, unfolded, lease_token, lease_holder, lease_until, lease_ended, lease_live FROM s`
)

var (
	extendTail        = appending(moveTail+admitTail, foldLeft)
	extendTailAndRows = appending(moveTail+moveRows+admitTail, listRows+foldLeft)
	beginTail         = appending(moveTail+takeLease+admitTail, leaseLeft)
	beginTailAndRows  = appending(moveTail+moveRows+takeLease+admitTail, listRows+leaseLeft)

	// After a discard the changes in force are counted anew.
	countTail = named(`UPDATE sessions s SET live = n.live, at_work = s.running OR n.live > 0
		FROM ` + mine + `, LATERAL (SELECT count(*) AS live FROM changes c
			WHERE c.log = m.sid AND c.seq > m.seq AND c.kind <> '` + tailDiscarded + `'
			AND NOT EXISTS (SELECT 1 FROM discards d WHERE d.log = c.log AND c.seq BETWEEN d.from_seq AND d.to_seq)) n
		WHERE s.sid = m.sid`)
)

// Append writes to the open tail.
func (s *Store) Append(ctx context.Context, next session.Session, a store.Append) (session.Session, error) {
	return s.extend(ctx, next, a, nil)
}

// Start takes the lease and writes to the open tail.
func (s *Store) Start(ctx context.Context, next session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	if err := admission.CheckLength(b.Length); err != nil {
		return session.Session{}, store.Lease{}, err
	}
	request := leaseRequest{holder: b.Holder, length: b.Length}
	begun, err := s.extend(ctx, next, store.Append{Keys: b.Keys}, &request)
	if err != nil {
		return session.Session{}, store.Lease{}, err
	}
	return begun, request.taken.lease().Lease, nil
}

// leaseRequest asks for the lease together with a write.
type leaseRequest struct {
	holder string
	length time.Duration
	taken  leaseRow
}

// extend writes to the open tail, and takes the lease if one is requested.
func (s *Store) extend(ctx context.Context, next session.Session, a store.Append, lease *leaseRequest) (session.Session, error) {
	if err := s.usable(ctx, admission.CheckSession(next, a.Keys)); err != nil {
		return session.Session{}, err
	}
	pending := session.Unsaved(next)
	if invalid := admission.CheckAppend(pending); invalid != nil {
		if _, err := s.refusal(ctx, next, a.Fence); err != nil {
			return session.Session{}, err
		}
		return session.Session{}, invalid
	}
	var left fold
	w, err := s.sendUntilDecided(ctx, next, a.Fence, func(base store.Sum) (*write, error) {
		return s.newAppend(next, a, pending, base, lease, &left)
	})
	var lost *answerLostError
	switch {
	case err == nil:
		if left.due(next.Version()) {
			s.snapshotsDue.set(store.RefOf(next), true)
		}
		return s.warm.Keep(session.Flush(next), w.last), nil
	case !errors.As(err, &lost):
		return session.Session{}, err
	case s.askAppend(ctx, w, lease) == made:
		return s.warm.Keep(session.Flush(next), w.last), nil
	}
	return session.Session{}, &session.UnknownOutcomeError{ID: next.ID(), Err: lost.err}
}

func (s *Store) newAppend(next session.Session, a store.Append, pending []session.Record, base store.Sum, lease *leaseRequest, left *fold) (*write, error) {
	args := pgx.NamedArgs{"last": next.Seq(), "added": int64(len(pending)), "running": next.Running(), "due": dueOf(session.Flush(next))}
	admit(args, next, a.Fence, base)
	last, err := addChanges(args, pending, next.Version()+1, base)
	if err != nil {
		return nil, err
	}
	rows := admission.MovesRows(pending)
	if rows {
		info := next.Info()
		if args["tail_rows"], err = (tailRows{Task: info.Task, Workflow: info.Workflow}).encode(info.ID); err != nil {
			return nil, err
		}
		addStatuses(args, info)
	}
	name, into := "append", []any{&left.snapVersion, &left.snapBytes, &left.unfolded}
	if lease != nil {
		name = "start"
		args["holder"], args["length"] = []byte(lease.holder), lease.length.Microseconds()
		into = append(into, lease.taken.columns()...)
	}
	w := s.newWrite(name, store.RefOf(next), args, into...)
	w.last = last
	switch {
	case lease != nil && rows:
		w.add(beginTailAndRows.of(len(pending)), nil)
	case lease != nil:
		w.add(beginTail.of(len(pending)), nil)
	case rows:
		w.add(extendTailAndRows.of(len(pending)), nil)
	default:
		w.add(extendTail.of(len(pending)), nil)
	}
	w.addEffects(pending)
	if admission.Has[session.TailDiscarded](pending) {
		w.add(countTail, nil)
	}
	w.addKeys(a.Keys, next.Seq())
	return w, nil
}
