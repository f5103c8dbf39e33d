package sqlite

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// view is which messages a search may find: those that the searched session, or
// a session of the searched user (or any), shows. A session is read when the first
// message of its log is found.
type view struct {
	c      *conn
	tenant string
	query  store.Search

	session *visibility             // the one searched by its id, nil if it is deleted or missing
	users   map[int64][]*visibility // by log: sessions of the user that share it
	known   map[string]*visibility  // by id
}

func newView(c *conn, tenant string, q store.Search) *view {
	return &view{c: c, tenant: tenant, query: q, users: map[int64][]*visibility{}, known: map[string]*visibility{}}
}

// visibility is which messages a session shows.
type visibility struct {
	id    string
	user  string // of the one searched by its id
	read  bool   // the rest was read
	parts []stretch
	spans []session.Span // of its transcript
}

// open looks for the session that is searched by its id.
func (v *view) open(ctx context.Context, c *conn) error {
	if v.query.Session == "" {
		return nil
	}
	var visible bool
	var user string
	found, err := c.one(ctx, "SELECT status <> ?, user_id FROM sessions WHERE tenant = ? AND id = ?",
		[]any{string(session.Deleted), v.tenant, v.query.Session}, &visible, &user)
	if err != nil || !found || !visible {
		return err
	}
	v.session = v.visibilityOf(v.query.Session)
	v.session.user = user
	return v.resolve(ctx, v.session)
}

func (v *view) visibilityOf(id string) *visibility {
	if v.known[id] == nil {
		v.known[id] = &visibility{id: id}
	}
	return v.known[id]
}

// resolve reads which messages a session shows: those of its transcript with the
// open tail, or of its whole log. A session that cannot be read shows none.
func (v *view) resolve(ctx context.Context, r *visibility) error {
	err := v.readVisible(ctx, r)
	if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNewerFormat) {
		return nil
	}
	return err
}

func (v *view) readVisible(ctx context.Context, r *visibility) error {
	if r.read {
		return nil
	}
	r.read = true
	ref := store.Ref{Tenant: v.tenant, ID: r.id}
	w, err := v.c.mustFind(ctx, ref)
	if err != nil {
		return err
	}
	if r.spans, err = v.c.spansOf(ctx, ref, w); err != nil {
		return err
	}
	if v.query.Cleared {
		r.spans = []session.Span{{From: 1}}
	}
	r.parts, err = v.c.history(ctx, w, w.last)
	return err
}

// spansOf returns the spans of a session's transcript, with the open tail.
func (c *conn) spansOf(ctx context.Context, r store.Ref, w row) ([]session.Span, error) {
	s, err := c.folded(ctx, r, w, w.version)
	if err != nil {
		return nil, err
	}
	records, err := c.records(ctx, r, w, reading{after: w.seq, upTo: w.last})
	if err != nil {
		return nil, err
	}
	if s, err = session.ApplyTail(s, records); err != nil {
		return nil, store.Unreadable(r.ID, "tail", err)
	}
	return session.Spans(s), nil
}

func (r *visibility) holds(at place) bool {
	return session.Holds(r.spans, at.seq) && slices.ContainsFunc(r.parts, func(p stretch) bool {
		return p.log == at.log && at.seq > p.after && at.seq <= p.upTo
	})
}

// logs are the logs of the session that is searched by its id.
func (v *view) logs() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		if v.session == nil {
			return
		}
		for _, p := range v.session.parts {
			if !yield(p.log) {
				return
			}
		}
	}
}

// unindexedLogs returns the searched logs that have messages after the mark.
func (v *view) unindexedLogs(ctx context.Context, mark int64) ([]int64, error) {
	logs := slices.Collect(v.logs())
	if _, several := v.query.OfUser(); !several {
		return logs, nil
	}
	var all []int64
	err := v.c.each(ctx, "SELECT DISTINCT log FROM changes WHERE n > ? AND kind = ?", []any{mark, messageAdded}, func(rows *rows) error {
		var log int64
		err := rows.Scan(&log)
		all = append(all, log)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, log := range all {
		sharing, err := v.sharing(ctx, log)
		if err != nil {
			return nil, err
		}
		if len(sharing) > 0 && !slices.Contains(logs, log) {
			logs = append(logs, log)
		}
	}
	return logs, nil
}

// sharing are the sessions of the user, or of everybody, that share a log, by id.
func (v *view) sharing(ctx context.Context, log int64) ([]*visibility, error) {
	user, several := v.query.OfUser()
	if known, ok := v.users[log]; ok || !several {
		return known, nil
	}
	var sharing []*visibility
	err := v.c.each(ctx, `SELECT id FROM sessions WHERE (log = ?1 OR log IN (SELECT log FROM lineage WHERE ancestor = ?1))
AND tenant = ?2 AND (?3 = '' OR user_id = ?3) AND status <> ?4 ORDER BY id`,
		[]any{log, v.tenant, user, string(session.Deleted)}, func(rows *rows) error {
			var id string
			err := rows.Scan(&id)
			sharing = append(sharing, v.visibilityOf(id))
			return err
		})
	v.users[log] = sharing
	return sharing, err
}

// holder is the session that a message is found in, "" for none: the searched
// session, else the user's first.
func (v *view) holder(ctx context.Context, at place) (string, error) {
	if v.session != nil && v.session.holds(at) {
		return v.session.id, nil
	}
	sharing, err := v.sharing(ctx, at.log)
	if err != nil {
		return "", err
	}
	for _, r := range sharing {
		if err := v.resolve(ctx, r); err != nil {
			return "", err
		}
		if r.holds(at) {
			return r.id, nil
		}
	}
	return "", nil
}
