package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// versionWrite is a version that is ready to be written.
type versionWrite struct {
	commit  store.Commit
	next    session.Session // as passed to Save
	sealed  session.Session // as saved
	changes []change
	size    int64 // of the changes
	header  string
}

// prepareSave encodes everything except the head, which most saves do not write.
// It runs before the request is queued, because all writes share one writer.
func prepareSave(next session.Session, c store.Commit) (versionWrite, error) {
	v := versionWrite{commit: c, next: next, sealed: session.Seal(next, c.At)}
	var err error
	if v.changes, v.size, err = encodeChanges(session.Unsaved(next)); err != nil {
		return v, err
	}
	v.header, err = encodeHeader(v.sealed.Info())
	return v, err
}

// Save adds a version.
func (s *Store) Save(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	if err := s.usable(ctx, admission.CheckSession(next, c.Keys)); err != nil {
		return session.Session{}, err
	}
	v, err := prepareSave(next, c)
	if err != nil {
		return session.Session{}, err
	}
	r := store.RefOf(next)
	var last store.Sum
	err = s.write(ctx, &request{
		ref: r, commitID: c.ID, keepsCache: true,
		do: func(ctx context.Context, conn *conn) (err error) {
			last, err = s.save(ctx, conn, r, v)
			return err
		},
		saved: v.wasSaved,
	})
	if err != nil {
		return session.Session{}, err
	}
	return s.warm.Keep(v.sealed, last), nil
}

// save writes a version and returns the sum of its last record.
func (s *Store) save(ctx context.Context, c *conn, r store.Ref, v versionWrite) (store.Sum, error) {
	w, err := c.current(ctx, r)
	if err != nil {
		return 0, err
	}
	w.unfolded += v.size
	due := v.headDue(w)
	if due {
		if err := c.readHead(ctx, &w.head); err != nil { // do not write a head on top of a damaged one
			return 0, err
		}
	}
	now := s.now()
	if err := w.admit(v.next, v.commit.Fence, now); err != nil {
		return 0, err
	}
	w.lastSum = addSums(v.changes, w.lastSum, w.version+1)
	if err := c.addVersion(ctx, w, v); err != nil {
		return 0, err
	}
	if due {
		if err := c.addHead(ctx, w, v.sealed); err != nil {
			return 0, err
		}
		w.unfolded = 0
	}
	if admission.Releases(v.commit) {
		w.lease.Released = true
	}
	if err := c.addKeys(ctx, w, v.commit.Keys, v.sealed.Seq(), now); err != nil {
		return 0, err
	}
	if err := c.moveRow(ctx, r, &w, v); err != nil {
		return 0, err
	}
	if due {
		c.cache.drop(r) // it does not have the new head
	} else {
		c.cache.put(r, w)
	}
	return w.lastSum, nil
}

// A small head is written after maxUnfolded changes, so that any version is
// folded from few. A large one is written when the changes since the last head
// have grown to 1/headShare of it, or after maxVersions.
const (
	maxUnfolded = 48
	maxVersions = 192
	headShare   = 4
)

// headDue reports whether a head must be written with this version.
func (v versionWrite) headDue(w row) bool {
	changes, versions := v.sealed.Seq()-w.head.seq, v.sealed.Version()-w.head.version
	if w.head.size <= smallHead {
		return max(changes, versions) >= maxUnfolded
	}
	return w.unfolded*headShare >= w.head.size || versions >= maxVersions
}

// addHead writes the folded state of a version that ends with the row's last
// change.
func (c *conn) addHead(ctx context.Context, w row, sealed session.Session) error {
	data, err := session.EncodeHead(sealed)
	if err != nil {
		return err
	}
	h := head{version: sealed.Version(), seq: sealed.Seq(), logSum: w.lastSum, data: data}
	_, err = c.exec(ctx, "INSERT INTO heads (log, base, version, seq, log_sum, sum, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
		w.log, h.version, h.version, h.seq, int64(h.logSum), h.checksum(), data)
	c.onWrite("after head")
	return err
}

// addVersion writes the changes of a version and its commit.
func (c *conn) addVersion(ctx context.Context, w row, v versionWrite) error {
	i := v.sealed.Info()
	commit := store.CommitInfo{
		ID: v.commit.ID, Version: i.Version, FirstSeq: w.seq + 1, LastSeq: i.Seq,
		Action: v.commit.Action, Actor: v.commit.Actor, At: i.UpdatedAt,
	}
	err := c.addChanges(ctx, w, v.changes, &commit)
	if err == nil && len(v.changes) == 0 {
		err = c.addCommit(ctx, w, commit)
	}
	c.onWrite("after version")
	return err
}

// moveRow updates a session's row to the new version. SQLite writes to every
// index of a column that is set, so columns that hardly ever change are set only
// if they have.
func (c *conn) moveRow(ctx context.Context, r store.Ref, w *row, v versionWrite) error {
	i := v.sealed.Info()
	w.version, w.seq, w.last, w.live, w.header = i.Version, i.Seq, i.Seq, 0, v.header
	w.headerSum = headerSum(r, []byte(v.header))
	w.sum = w.checksum(r)
	set := `version = ?, seq = ?, last_seq = ?, tail_live = 0, since_head = ?, lease_open = ?, updated_at = ?, header = ?,
	last_sum = ?, header_sum = ?, row_sum = ?`
	args := []any{
		i.Version, i.Seq, i.Seq, w.unfolded, !w.lease.Released, micros(i.UpdatedAt), v.header, int64(w.lastSum), w.headerSum, w.sum,
	}
	if now := filtersOf(i); now != w.filters {
		w.filters = now
		set += ", status = ?, name = ?, origin = ?, task_status = ?, workflow_status = ?"
		args = append(args, now.status, now.name, now.origin, orNull(now.task), orNull(now.workflow))
	}
	if err := c.setRow(ctx, w, set, args, v.sealed.Running(), v.sealed); err != nil {
		return err
	}
	if session.MayRetag(v.next) {
		return c.setTags(ctx, r, w.log, v.sealed)
	}
	return nil
}

// setRow sets columns of a session's row. If they change, it marks a session that
// has a tail in force or a running execution, and when somebody should work on it.
func (c *conn) setRow(ctx context.Context, w *row, set string, args []any, open bool, now session.Session) error {
	if due := dueOf(now); open != w.open || due != w.due {
		w.open, w.due = open, due
		set, args = set+", open = ?, due = ?", append(args, open, due)
	}
	_, err := c.exec(ctx, "UPDATE sessions SET "+set+" WHERE log = ?", append(args, w.log)...)
	return err
}

// orNull makes NULL of an empty text.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// wasSaved looks for the version after a commit with an unknown outcome.
func (v versionWrite) wasSaved(ctx context.Context, c *conn) (bool, error) {
	w, found, err := c.find(ctx, store.RefOf(v.next), 0)
	if err != nil || !found || w.agentID != v.next.AgentID() {
		return false, err
	}
	version := v.sealed.Version()
	commits, err := c.commitsIn(ctx, v.next.ID(), w.log, version-1, version, 1)
	return len(commits) == 1 && commits[0].ID == v.commit.ID, err
}

// Delete removes a session for good, and of its log and its ancestors' logs all
// that no other session or fork needs.
func (s *Store) Delete(ctx context.Context, r store.Ref, fence int64) error {
	if err := s.usable(ctx, r.Check()); err != nil {
		return err
	}
	defer s.warm.Drop(r)
	return s.write(ctx, &request{ref: r, do: func(ctx context.Context, c *conn) error {
		w, found, err := c.find(ctx, r, 0)
		if err != nil || !found {
			return err
		}
		if err := w.lease.AdmitDelete(r.ID, fence, w.leased(s.now())); err != nil {
			return err
		}
		return c.remove(ctx, w)
	}})
}

func (c *conn) remove(ctx context.Context, w row) error {
	parts, err := c.history(ctx, w, w.last)
	if err != nil {
		return err
	}
	user, err := c.userOf(ctx, w.log)
	if err != nil {
		return err
	}
	if _, err := c.exec(ctx, "DELETE FROM sessions WHERE log = ?", w.log); err != nil {
		return err
	}
	c.onWrite("after removal")
	for _, p := range parts {
		if err := c.unindex(ctx, p.log, unneeded); err != nil {
			return err
		}
		if err := c.removeVectors(ctx, p.log, unneeded); err != nil {
			return err
		}
		for _, statement := range []string{
			"DELETE FROM changes WHERE " + unneeded,
			"DELETE FROM forgotten WHERE log = ?1 AND NOT EXISTS (SELECT 1 FROM changes WHERE log = ?1)",
		} {
			if _, err := c.exec(ctx, statement, p.log); err != nil {
				return err
			}
		}
	}
	if err := c.removePlaces(ctx, user); err != nil {
		return err
	}
	return c.lowerMarks(ctx)
}
