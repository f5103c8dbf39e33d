package sqlite

import (
	"context"
	"database/sql"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Append writes to the open tail.
func (s *Store) Append(ctx context.Context, next session.Session, a store.Append) (session.Session, error) {
	if err := s.writable(ctx, next, a.Keys); err != nil {
		return session.Session{}, err
	}
	changes, size, err := encodeChanges(next.Pending())
	if err != nil {
		return session.Session{}, err
	}
	r := store.RefOf(next)
	err = s.write(ctx, &request{
		ref: r, remembers: true,
		do:    func(ctx context.Context, c *conn) error { return s.extend(ctx, c, next, a, changes, size) },
		saved: appended(r, changes),
	})
	if err != nil {
		return session.Session{}, err
	}
	return next.Flushed(), nil
}

func (s *Store) extend(ctx context.Context, c *conn, next session.Session, a store.Append, changes []change, size int64) error {
	r, now := store.RefOf(next), s.now()
	w, err := c.current(ctx, r)
	if err != nil {
		return err
	}
	if err := w.admit(next, a.Fence, now); err != nil {
		return err
	}
	if hasKind(changes, sessionRewound) {
		return &session.InvalidError{Field: "change", Reason: "session_rewound can be saved but not appended"}
	}
	if err := c.addChanges(ctx, w, changes, nil); err != nil {
		return err
	}
	w.live += int64(len(changes))
	if hasKind(changes, tailDiscarded) {
		if _, err := c.one(ctx, "SELECT count(*) FROM changes WHERE log = ? AND seq > ? AND discarded = 0 AND kind <> ?",
			[]any{w.log, w.seq, tailDiscarded}, &w.live); err != nil {
			return err
		}
	}
	w.last, w.unfolded = next.Seq(), w.unfolded+size
	if _, err := c.exec(ctx, "UPDATE sessions SET last_seq = ?, tail_live = ?, unfolded = ? WHERE log = ?",
		w.last, w.live, w.unfolded, w.log); err != nil {
		return err
	}
	if err := c.setOpen(ctx, &w, w.live > 0 || next.Running()); err != nil {
		return err
	}
	if err := c.showRows(ctx, &w, next.Info(), changes); err != nil {
		return err
	}
	if err := c.addKeys(ctx, w, a.Keys, w.last, now); err != nil {
		return err
	}
	c.known.put(r, w)
	return nil
}

// showRows puts the task and workflow rows of info into the header where the
// changes touch them. A discarded tail returns them to what they were, which
// is what the value that discards it has.
func (c *conn) showRows(ctx context.Context, w *row, info session.Info, changes []change) error {
	if !hasKind(changes, taskRowChanged, workflowRowChanged, tailDiscarded) {
		return nil
	}
	shown, err := decodeHeader(store.Ref{Tenant: info.Tenant, ID: info.ID}, w.header)
	if err != nil {
		return err
	}
	shown.Task, shown.Workflow = info.Task, info.Workflow
	if w.header, err = encodeHeader(shown); err != nil {
		return err
	}
	_, err = c.exec(ctx, "UPDATE sessions SET header = ?, task_status = ?, workflow_status = ? WHERE log = ?",
		w.header, taskStatus(shown), workflowStatus(shown), w.log)
	return err
}

// appended looks for the last of some changes after a commit whose outcome is
// in doubt. An append of nothing leaves no trace to look for.
func appended(r store.Ref, changes []change) func(context.Context, *conn) (bool, error) {
	if len(changes) == 0 {
		return nil
	}
	last := changes[len(changes)-1]
	return func(ctx context.Context, c *conn) (bool, error) {
		var one int
		return c.one(ctx, `SELECT 1 FROM sessions s JOIN changes c ON c.log = s.log
WHERE s.tenant = ? AND s.id = ? AND c.seq = ? AND c.at = ? AND c.data = ?`, []any{r.Tenant, r.ID, last.seq, micros(last.at), last.data}, &one)
	}
}

// Interrupted lists sessions whose execution was broken off.
func (s *Store) Interrupted(ctx context.Context, tenant string) ([]store.Ref, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if err := session.CheckTenant(tenant); err != nil {
		return nil, err
	}
	now := s.now()
	var refs []store.Ref
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, `SELECT id, lease_token, lease_holder, lease_until, lease_open FROM sessions
WHERE tenant = ? AND open > 0 ORDER BY id`, []any{tenant}, func(rows *sql.Rows) error {
			var id string
			l, err := scanLease(rows, &id)
			if err == nil && !l.live(now) {
				refs = append(refs, store.Ref{Tenant: tenant, ID: id})
			}
			return err
		})
	})
	return refs, err
}

// scanLease scans a row that ends with the columns of a lease.
func scanLease(rows *sql.Rows, before ...any) (lease, error) {
	var l lease
	var until int64
	err := rows.Scan(append(before, &l.token, &l.holder, &until, &l.open)...)
	l.until = instant(until)
	return l, err
}
