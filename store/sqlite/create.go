package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// Create stores a version-0 session as version 1.
func (s *Store) Create(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	return s.create(ctx, next, c, false)
}

// Fork stores a fork as version 1 and shares the log of its parent.
func (s *Store) Fork(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	return s.create(ctx, next, c, true)
}

func (s *Store) create(ctx context.Context, next session.Session, c store.Commit, mustShare bool) (session.Session, error) {
	if err := s.usable(ctx, admission.CheckSession(next, c.Keys)); err != nil {
		return session.Session{}, err
	}
	v, err := prepareSave(next, c)
	if err != nil {
		return session.Session{}, err
	}
	r, made := store.RefOf(next), v
	var last store.Sum
	err = s.write(ctx, &request{
		ref: r, commitID: c.ID,
		do: func(ctx context.Context, conn *conn) (err error) {
			parent, err := conn.creatable(ctx, r, next)
			if err != nil {
				return err
			}
			made = v
			if parent.log == 0 {
				if made, err = v.rooted(mustShare); err != nil {
					return err
				}
			}
			last, err = s.insert(ctx, conn, r, made, parent)
			return err
		},
		saved: v.wasSaved,
	})
	if err != nil {
		return session.Session{}, err
	}
	return s.warm.Keep(made.sealed, last), nil
}

// creatable checks whether a session can be created and returns the stretch of
// its parent's own log that it shares, none if the parent does not exist.
func (c *conn) creatable(ctx context.Context, r store.Ref, next session.Session) (stretch, error) {
	var one int
	exists, err := c.one(ctx, "SELECT 1 FROM sessions WHERE tenant = ? AND id = ?", []any{r.Tenant, r.ID}, &one)
	if err == nil {
		err = admission.CheckCreate(next, exists)
	}
	of, isFork := admission.ParentOf(next)
	if err != nil || !isFork {
		return stretch{}, err
	}
	parent, found, err := c.find(ctx, of.Ref, 0)
	if err != nil || !found || parent.agentID != of.AgentID {
		return stretch{}, err
	}
	found, err = c.hasCommit(ctx, parent.log, of.At.Version, of.At.Seq)
	if err != nil || !found {
		return stretch{}, err
	}
	return stretch{log: parent.log, after: parent.forkedAt, upTo: of.At.Seq}, nil
}

// rooted returns the version with a log of its own.
func (v versionWrite) rooted(mustShare bool) (versionWrite, error) {
	next, changed, err := admission.Rooted(v.next, mustShare)
	if err != nil || !changed {
		return v, err
	}
	return prepareSave(next, v.commit)
}

// insert writes a new session that continues the stretch it shares, if any, and
// returns the sum of its last record.
func (s *Store) insert(ctx context.Context, c *conn, r store.Ref, v versionWrite, parent stretch) (store.Sum, error) {
	w := row{seq: parent.upTo, forkedAt: parent.upTo}
	i := v.sealed.Info()
	now := filtersOf(i)
	if parent.log != 0 {
		if _, err := c.one(ctx, "SELECT sum FROM changes WHERE log = ? AND seq = ?", []any{parent.log, parent.upTo}, (*int64)(&w.lastSum)); err != nil {
			return 0, err
		}
	}
	w.lastSum = addSums(v.changes, w.lastSum, i.Version)
	made := row{
		agentID: v.sealed.AgentID(), version: i.Version, seq: i.Seq, last: i.Seq, forkedAt: w.forkedAt,
		lastSum: w.lastSum, headerSum: headerSum(r, []byte(v.header)),
	}
	tags, tagged := session.Tags(v.sealed)
	_, err := c.one(ctx, `INSERT INTO sessions (tenant, id, agent_id, version, seq, last_seq, forked_at, open,
	kind, status, name, user_id, parent_id, origin, agent_name, task_status, workflow_status, created_at, updated_at, header,
	last_sum, header_sum, row_sum, due, tagged)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING log`,
		[]any{
			r.Tenant, r.ID, v.sealed.AgentID(), i.Version, i.Seq, i.Seq, w.forkedAt, v.sealed.Running(),
			i.Kind, i.Status, i.Name, i.UserID, i.ParentID, i.Origin, i.AgentName, orNull(now.task), orNull(now.workflow),
			micros(i.CreatedAt), micros(i.UpdatedAt), v.header, int64(made.lastSum), made.headerSum, made.checksum(r), dueOf(v.sealed), tagged,
		}, &w.log)
	if err != nil {
		return 0, err
	}
	for _, tag := range tags {
		if err := c.addTag(ctx, r.Tenant, tag, w.log); err != nil {
			return 0, err
		}
	}
	if parent.log != 0 {
		if _, err := c.exec(ctx, `INSERT INTO lineage (log, after_seq, upto_seq, ancestor)
SELECT ?1, after_seq, upto_seq, ancestor FROM lineage WHERE log = ?2 UNION ALL SELECT ?1, ?3, ?4, ?2`,
			w.log, parent.log, parent.after, parent.upTo); err != nil {
			return 0, err
		}
	}
	if err := c.addVersion(ctx, w, v); err != nil {
		return 0, err
	}
	if err := c.addHead(ctx, w, v.sealed); err != nil {
		return 0, err
	}
	return w.lastSum, c.addKeys(ctx, w, v.commit.Keys, i.Seq, s.now())
}
