package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// tailWrite is one write to the open tail.
type tailWrite struct {
	next    session.Session
	pending []session.Record // of next
	keys    []store.Key
	fence   int64
	changes []change
	size    int64 // of the changes
}

func (s *Store) prepareTail(ctx context.Context, next session.Session, fence int64, keys []store.Key) (tailWrite, error) {
	a := tailWrite{next: next, keys: keys, fence: fence}
	err := s.usable(ctx, admission.CheckSession(next, keys))
	if err == nil {
		a.pending = session.Unsaved(next)
		a.changes, a.size, err = encodeChanges(a.pending)
	}
	return a, err
}

// Append writes to the open tail.
func (s *Store) Append(ctx context.Context, next session.Session, a store.Append) (session.Session, error) {
	w, err := s.prepareTail(ctx, next, a.Fence, a.Keys)
	if err != nil {
		return session.Session{}, err
	}
	var last store.Sum
	err = s.write(ctx, &request{
		ref: store.RefOf(next), keepsCache: true, saved: w.saved(),
		do: func(ctx context.Context, c *conn) (err error) {
			last, err = c.extend(ctx, w, s.now(), nil)
			return err
		},
	})
	if err != nil {
		return session.Session{}, err
	}
	return s.warm.Keep(session.Flush(next), last), nil
}

// Start takes the lease and writes to the open tail.
func (s *Store) Start(ctx context.Context, next session.Session, b store.Beginning) (session.Session, store.Lease, error) {
	if err := admission.CheckLength(b.Length); err != nil {
		return session.Session{}, store.Lease{}, err
	}
	w, err := s.prepareTail(ctx, next, 0, b.Keys)
	if err != nil {
		return session.Session{}, store.Lease{}, err
	}
	var taken admission.Lease
	var last store.Sum
	err = s.write(ctx, &request{
		ref: store.RefOf(next), keepsCache: true, saved: w.saved(),
		do: func(ctx context.Context, c *conn) (err error) {
			now := s.now()
			taken = admission.NewLease(b.Holder, now, b.Length)
			last, err = c.extend(ctx, w, now, &taken)
			return err
		},
	})
	if err != nil {
		return session.Session{}, store.Lease{}, err
	}
	return s.warm.Keep(session.Flush(next), last), taken.Lease, nil
}

// extend writes to the open tail, under a new lease if one is wanted, and
// returns the sum of its last record.
func (c *conn) extend(ctx context.Context, a tailWrite, now time.Time, wanted *admission.Lease) (store.Sum, error) {
	r := store.RefOf(a.next)
	w, err := c.current(ctx, r)
	if err != nil {
		return 0, err
	}
	if err := w.admit(a.next, a.fence, now); err != nil {
		return 0, err
	}
	if err := admission.CheckAppend(a.pending); err != nil {
		return 0, err
	}
	if wanted != nil {
		if err := c.numberLease(ctx, wanted); err != nil {
			return 0, err
		}
		w.lease = *wanted
	}
	w.lastSum = addSums(a.changes, w.lastSum, w.version+1)
	if err := c.addChanges(ctx, w, a.changes, nil); err != nil {
		return 0, err
	}
	w.live += int64(len(a.changes))
	if hasKind(a.changes, tailDiscarded) {
		if _, err := c.one(ctx, "SELECT count(*) FROM changes WHERE log = ? AND seq > ? AND discarded = 0 AND kind <> ?",
			[]any{w.log, w.seq, tailDiscarded}, &w.live); err != nil {
			return 0, err
		}
	}
	if admission.MovesRows(a.pending) {
		if err := c.showRows(ctx, &w, a.next); err != nil {
			return 0, err
		}
	}
	w.last, w.unfolded = a.next.Seq(), w.unfolded+a.size
	w.sum = w.checksum(r)
	set, args := "last_seq = ?, tail_live = ?, since_head = ?, last_sum = ?, row_sum = ?", []any{w.last, w.live, w.unfolded, int64(w.lastSum), w.sum}
	if wanted != nil {
		set, args = set+", "+leaseSet, append(args, leaseArgs(w.lease)...)
	}
	if err := c.setRow(ctx, &w, set, args, w.live > 0 || a.next.Running(), session.Flush(a.next)); err != nil {
		return 0, err
	}
	if err := c.addKeys(ctx, w, a.keys, w.last, now); err != nil {
		return 0, err
	}
	c.cache.put(r, w)
	return w.lastSum, nil
}

// showRows puts the task and workflow rows of a session into the stored header.
// The sum of the row is left to the caller.
func (c *conn) showRows(ctx context.Context, w *row, next session.Session) error {
	info := next.Info()
	r := store.RefOf(next)
	shown, err := decodeHeader(r, w.header, w.headerSum)
	if err != nil {
		return err
	}
	shown.Task, shown.Workflow = info.Task, info.Workflow
	if w.header, err = encodeHeader(shown); err != nil {
		return err
	}
	w.headerSum = headerSum(r, []byte(w.header))
	moved := filtersOf(shown)
	w.filters.task, w.filters.workflow = moved.task, moved.workflow
	_, err = c.exec(ctx, "UPDATE sessions SET header = ?, header_sum = ?, task_status = ?, workflow_status = ? WHERE log = ?",
		w.header, w.headerSum, orNull(moved.task), orNull(moved.workflow), w.log)
	return err
}

// saved looks for the last change after a commit with an unknown outcome. An
// append without changes leaves nothing to look for.
func (a tailWrite) saved() func(context.Context, *conn) (bool, error) {
	if len(a.changes) == 0 {
		return nil
	}
	last := a.changes[len(a.changes)-1]
	return func(ctx context.Context, c *conn) (bool, error) {
		var one int
		return c.one(ctx, `SELECT 1 FROM sessions s JOIN changes c ON c.log = s.log
WHERE s.tenant = ? AND s.id = ? AND s.agent_id = ? AND c.seq = ? AND c.at = ? AND c.data = ?`,
			[]any{a.next.Tenant(), a.next.ID(), a.next.AgentID(), last.seq, micros(last.at), last.data}, &one)
	}
}

// Interrupted lists sessions whose execution was interrupted.
func (s *Store) Interrupted(ctx context.Context, tenant string) ([]store.Ref, error) {
	return s.unheld(ctx, tenant, "open > 0")
}

// Unread lists sessions whose inbox waits for somebody.
func (s *Store) Unread(ctx context.Context, tenant string) ([]store.Ref, error) {
	return s.unheld(ctx, tenant, "log IN (SELECT log FROM inbox WHERE taken = 0)")
}

// unheld lists sessions of a tenant that nobody holds.
func (s *Store) unheld(ctx context.Context, tenant, condition string) ([]store.Ref, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	now := s.now()
	var refs []store.Ref
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, `SELECT id, lease_token, lease_holder, lease_until, lease_open FROM sessions
WHERE tenant = ? AND `+condition+` ORDER BY id`, []any{tenant}, func(rows *rows) error {
			var id string
			l, err := scanLease(rows, &id)
			if err == nil && !l.Live(now) {
				refs = append(refs, store.Ref{Tenant: tenant, ID: id})
			}
			return err
		})
	})
	return refs, err
}

// scanLease scans a row that ends with the columns of a lease.
func scanLease(rows *rows, before ...any) (admission.Lease, error) {
	var l leaseRow
	err := rows.Scan(append(before, l.columns()...)...)
	return l.lease(), err
}
