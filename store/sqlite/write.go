package sqlite

import (
	"context"
	"hash/crc32"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// saving is a version ready to be written.
type saving struct {
	commit  store.Commit
	next    session.Session // as it came
	sealed  session.Session // as it will be
	changes []change
	size    int64  // of the changes
	head    []byte // nil: encoded only when it is due
	header  string
}

// prepareSave encodes everything before the writer is asked, because that is
// one for all. A large head is left out: most saves do not write it.
func (s *Store) prepareSave(next session.Session, c store.Commit) (saving, error) {
	v := saving{commit: c, next: next, sealed: next.Sealed(c.At)}
	var err error
	if v.changes, v.size, err = encodeChanges(next.Pending()); err != nil {
		return v, err
	}
	if v.header, err = encodeHeader(v.sealed.Info()); err != nil {
		return v, err
	}
	if _, large := s.large.Load(store.RefOf(next)); !large {
		v.head, err = v.sealed.EncodeHead()
	}
	return v, err
}

// writable is the reason why a session cannot be written at all.
func (s *Store) writable(ctx context.Context, next session.Session, keys []store.Key) error {
	if next.IsZero() {
		return &session.InvalidError{Field: "session", Reason: "is the zero session"}
	}
	if err := s.usableFor(ctx, store.RefOf(next)); err != nil {
		return err
	}
	for _, k := range keys {
		if err := k.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Save adds a version.
func (s *Store) Save(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	if err := s.writable(ctx, next, c.Keys); err != nil {
		return session.Session{}, err
	}
	v, err := s.prepareSave(next, c)
	if err != nil {
		return session.Session{}, err
	}
	r := store.RefOf(next)
	err = s.write(ctx, &request{
		ref: r, commitID: c.ID,
		do:    func(ctx context.Context, conn *conn) error { return s.save(ctx, conn, r, v) },
		saved: v.isThere,
	})
	if err != nil {
		return session.Session{}, err
	}
	return v.sealed, nil
}

func (s *Store) save(ctx context.Context, c *conn, r store.Ref, v saving) error {
	w, err := c.mustFind(ctx, r)
	if err != nil {
		return err
	}
	if v.due(w) {
		if err := c.readHead(ctx, &w.head); err != nil { // what is replaced is checked first
			return err
		}
	}
	now := s.now()
	if err := w.admit(v.next, v.commit.Fence, now); err != nil {
		return err
	}
	if err := c.addChanges(ctx, w, v.changes); err != nil {
		return err
	}
	if v.due(w) {
		if err := s.moveHead(ctx, c, r, &w, v); err != nil {
			return err
		}
	} else {
		w.unfolded += v.size
	}
	if v.commit.Release {
		w.lease.open = false
	}
	if err := c.seal(ctx, w, v); err != nil {
		return err
	}
	return c.addKeys(ctx, w, v.commit.Keys, v.sealed.Seq(), now)
}

// A large head is written again when the changes it lacks have grown to a
// quarter of its size, or after so many versions.
const (
	worthIt     = 4
	maxUnfolded = 128
)

// due reports whether the head must be written with this version.
func (v saving) due(w row) bool {
	return v.head != nil || w.head.size <= smallHead || (w.unfolded+v.size)*worthIt >= w.head.size ||
		v.sealed.Version()-w.head.version >= maxUnfolded
}

// keepEvery is how many versions lie between two heads that are kept, so that
// an earlier version is folded from few changes.
const keepEvery = 32

// moveHead makes the newest head that of the new version. A head that is to
// be kept stays, and the new one is written beside it.
func (s *Store) moveHead(ctx context.Context, c *conn, r store.Ref, w *row, v saving) error {
	data, err := v.encodedHead()
	if err != nil {
		return err
	}
	info := v.sealed.Info()
	if w.head.version == w.kept {
		err = c.addHead(ctx, w.log, info, data)
	} else {
		_, err = c.exec(ctx, "UPDATE heads SET version = ?, seq = ?, sum = ?, data = ? WHERE n = ?",
			info.Version, info.Seq, crc32.ChecksumIEEE(data), data, w.head.n.Int64)
	}
	if err != nil {
		return err
	}
	if info.Version-w.kept >= keepEvery {
		w.kept = info.Version
	}
	w.unfolded = 0
	s.noteSize(r, len(data))
	c.onWrite("after head")
	return nil
}

func (v saving) encodedHead() ([]byte, error) {
	if v.head != nil {
		return v.head, nil
	}
	return v.sealed.EncodeHead()
}

// noteSize remembers which heads are large. It is a hint: a wrong one costs
// time and nothing else.
func (s *Store) noteSize(r store.Ref, size int) {
	if size > smallHead {
		s.large.Store(r, true)
	} else {
		s.large.Delete(r)
	}
}

func (c *conn) addHead(ctx context.Context, log int64, i session.Info, data []byte) error {
	_, err := c.exec(ctx, "INSERT INTO heads (log, base, version, seq, sum, data) VALUES (?, ?, ?, ?, ?, ?)",
		log, i.Version, i.Version, i.Seq, crc32.ChecksumIEEE(data), data)
	return err
}

// seal writes the commit and the session's row for the new version.
func (c *conn) seal(ctx context.Context, w row, v saving) error {
	if err := c.addCommit(ctx, w.log, w.seq+1, v); err != nil {
		return err
	}
	i := v.sealed.Info()
	_, err := c.exec(ctx, `UPDATE sessions SET version = ?, seq = ?, last_seq = ?, tail_live = 0, running = ?, kept = ?, unfolded = ?, lease_open = ?,
	kind = ?, status = ?, name = ?, user_id = ?, origin = ?, agent_name = ?, task_status = ?, workflow_status = ?, updated_at = ?, header = ?
WHERE log = ?`,
		i.Version, i.Seq, i.Seq, v.sealed.Running(), w.kept, w.unfolded, w.lease.open,
		i.Kind, i.Status, i.Name, i.UserID, i.Origin, i.AgentName, taskStatus(i), workflowStatus(i), micros(i.UpdatedAt), v.header,
		w.log)
	return err
}

func (c *conn) addCommit(ctx context.Context, log, first int64, v saving) error {
	i := v.sealed.Info()
	_, err := c.exec(ctx, "INSERT INTO commits (log, version, id, first_seq, last_seq, action, actor, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		log, i.Version, v.commit.ID, first, i.Seq, v.commit.Action, v.commit.Actor, micros(i.UpdatedAt))
	c.onWrite("after version")
	return err
}

// isThere looks for the version after a commit whose outcome is in doubt.
func (v saving) isThere(ctx context.Context, c *conn) (bool, error) {
	var one int
	return c.one(ctx, `SELECT 1 FROM sessions s JOIN commits c ON c.log = s.log
WHERE s.tenant = ? AND s.id = ? AND s.agent_id = ? AND c.version = ? AND c.id = ?`,
		[]any{v.next.Tenant(), v.next.ID(), v.next.AgentID(), v.sealed.Version(), v.commit.ID}, &one)
}

func taskStatus(i session.Info) any {
	if i.Task == nil {
		return nil
	}
	return i.Task.Status
}

func workflowStatus(i session.Info) any {
	if i.Workflow == nil {
		return nil
	}
	return i.Workflow.Status
}

// Delete removes a session for good. Of its log, and of logs that only it
// still needed, nothing stays but what forks need.
func (s *Store) Delete(ctx context.Context, r store.Ref, fence int64) error {
	if err := s.usableFor(ctx, r); err != nil {
		return err
	}
	return s.write(ctx, &request{ref: r, do: func(ctx context.Context, c *conn) error {
		w, found, err := c.find(ctx, r, 0)
		if err != nil || !found {
			return err
		}
		if w.lease.live(s.now()) && w.lease.token != fence {
			return w.lease.busy(r.ID)
		}
		s.large.Delete(r)
		return c.remove(ctx, w)
	}})
}

func (c *conn) remove(ctx context.Context, w row) error {
	parts, err := c.history(ctx, w, w.last)
	if err != nil {
		return err
	}
	if _, err := c.exec(ctx, "DELETE FROM sessions WHERE log = ?", w.log); err != nil {
		return err
	}
	c.onWrite("after removal")
	for _, p := range parts {
		if _, err := c.exec(ctx, `DELETE FROM changes WHERE log = ?1 AND seq > coalesce((SELECT max(upto_seq) FROM lineage WHERE ancestor = ?1), 0)
AND NOT EXISTS (SELECT 1 FROM sessions WHERE log = ?1)`, p.log); err != nil {
			return err
		}
	}
	return nil
}
