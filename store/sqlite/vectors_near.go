package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Nearest finds passages by their meaning. Of a large place that has an index it
// compares the vectors of the cells near the query, of others every vector.
func (s *Store) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	q, err := q.Check()
	if err != nil {
		return nil, err
	}
	var found []store.Passage
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		n := vectorSearch{query: q, owners: q.Owners(tenant), cells: s.cells, view: newView(c, tenant, q.Search), best: q.Nearest()}
		found, err = n.run(ctx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// vectorSearch is one search by meaning. It asks whether a session shows a
// message only for messages near enough to be among the best.
type vectorSearch struct {
	query    store.Near
	owners   []store.Owner
	embedder int64
	cells    *cellBuilder
	view     *view
	best     *store.Nearest
	compared int // vectors, one by one
}

func (n *vectorSearch) run(ctx context.Context, c *conn) ([]store.Passage, error) {
	e, err := c.embedder(ctx, n.query.Embedder)
	if err != nil || e.id == 0 {
		return nil, err
	}
	n.embedder = e.id
	if err := n.view.open(ctx, c); err != nil {
		return nil, err
	}
	if err := n.compareTranscripts(ctx, c); err != nil {
		return nil, err
	}
	for _, o := range n.owners {
		if err := n.compareEntries(ctx, c, o); err != nil {
			return nil, err
		}
	}
	best := n.best.Best()
	for i := range best {
		if err := n.fill(ctx, c, &best[i]); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// compareTranscripts compares the vectors of the user's transcripts and of the
// searched session's.
func (n *vectorSearch) compareTranscripts(ctx context.Context, c *conn) error {
	if n.query.User == "" {
		return n.compareSession(ctx, c)
	}
	place := store.PlaceOf(n.view.tenant, n.query.User, 0, len(n.query.Vector))
	row, err := c.placeRow(ctx, n.embedder, place)
	if err != nil {
		return err
	}
	if !row.ready {
		logs, err := n.view.allLogs(ctx)
		if err != nil {
			return err
		}
		return n.compareLogs(ctx, c, logs, place)
	}
	if n.view.session != nil && n.view.session.user != n.query.User {
		if err := n.compareSession(ctx, c); err != nil {
			return err
		}
	}
	return n.compareCells(ctx, c, row, nil)
}

// compareSession compares the vectors of the session that is searched by its id.
func (n *vectorSearch) compareSession(ctx context.Context, c *conn) error {
	if n.view.session == nil {
		return nil
	}
	changes := int64(0)
	for _, p := range n.view.session.parts {
		changes += p.upTo - p.after
	}
	logs := slices.Collect(n.view.logs())
	slices.Sort(logs)
	if user := n.view.session.user; user != "" {
		place := store.PlaceOf(n.view.tenant, user, 0, len(n.query.Vector))
		if changes <= int64(n.cells.above) { // they are compared soon
			return n.compareLogs(ctx, c, logs, place)
		}
		return n.compareLarge(ctx, c, logs, place, changes)
	}
	for _, log := range logs { // each has a place of its own
		if err := n.compareLarge(ctx, c, []int64{log}, store.PlaceOf(n.view.tenant, "", log, len(n.query.Vector)), changes); err != nil {
			return err
		}
	}
	return nil
}

// compareLarge compares the vectors of logs of one place by its index, unless
// they are so few of the place that it is quicker without.
func (n *vectorSearch) compareLarge(ctx context.Context, c *conn, logs []int64, place store.VectorPlace, changes int64) error {
	row, err := c.placeRow(ctx, n.embedder, place)
	if err != nil {
		return err
	}
	if row.ready {
		cells, err := c.updateCells(ctx, row, n.cells.cache.Of(row.id))
		if err != nil {
			return err
		}
		if place.User == "" || cells.Worth(int(changes)) {
			return n.compareCells(ctx, c, row, logs)
		}
	}
	return n.compareLogs(ctx, c, logs, place)
}

// compareLogs compares every vector of logs. If there are many, their place gets
// an index.
func (n *vectorSearch) compareLogs(ctx context.Context, c *conn, logs []int64, place store.VectorPlace) error {
	before := n.compared
	if err := n.compareMessages(ctx, c, logs); err != nil {
		return err
	}
	if n.compared-before > n.cells.above {
		n.cells.want(embedderPlace{n.embedder, place})
	}
	return nil
}

// allLogs are the logs of the session that is searched by its id and of all
// sessions of the user.
func (v *view) allLogs(ctx context.Context) ([]int64, error) {
	logs := slices.Collect(v.logs())
	if v.query.User == "" {
		return logs, nil
	}
	err := v.c.each(ctx, `WITH mine AS (SELECT log FROM sessions WHERE tenant = ? AND user_id = ? AND status <> ?)
SELECT log FROM mine UNION SELECT ancestor FROM lineage JOIN mine USING (log)`,
		[]any{v.tenant, v.query.User, string(session.Deleted)}, func(rows *rows) error {
			var log int64
			err := rows.Scan(&log)
			logs = append(logs, log)
			return err
		})
	slices.Sort(logs)
	return slices.Compact(logs), err
}

// near is a message whose vector is near enough. Whether a searched session
// shows it is not known yet.
type near struct {
	place
	at    int64
	score float64
	part  int
}

// maxNear is how many of them are collected before the view is asked.
const maxNear = 1024

// compareMessages compares the vectors of logs, part by part, because the
// connection cannot do anything else while it reads rows.
func (n *vectorSearch) compareMessages(ctx context.Context, c *conn, logs []int64) error {
	for after := int64(0); len(logs) > 0; {
		part, err := n.nextPart(ctx, c, logs, after)
		if err != nil {
			return err
		}
		for _, m := range part {
			if !n.best.Admits(m.score) {
				continue
			}
			id, err := n.view.holder(ctx, m.place)
			if err != nil {
				return err
			}
			if id != "" {
				n.best.Add(store.Passage{SessionID: id, Seq: m.seq, Score: m.score, Part: m.part, At: instant(m.at)})
			}
		}
		if len(part) < maxNear {
			return nil
		}
		last := part[len(part)-1]
		logs, after = logs[slices.Index(logs, last.log):], last.seq
	}
	return nil
}

// nextPart are the next near messages of logs, after a change of the first.
func (n *vectorSearch) nextPart(ctx context.Context, c *conn, logs []int64, after int64) ([]near, error) {
	list, err := json.Marshal(logs)
	if err != nil {
		return nil, err
	}
	var part []near
	err = c.each(ctx, `SELECT v.log, v.seq, v.at, v.vector FROM json_each(?1) j
CROSS JOIN message_vectors v ON v.log = j.value AND v.seq > CASE j.key WHEN 0 THEN ?2 ELSE 0 END
WHERE v.embedder = ?3 AND v.trace <= ?4 AND v.vector IS NOT NULL`,
		[]any{string(list), after, n.embedder, n.query.Trace}, func(rows *rows) error {
			var m near
			var vector sql.RawBytes
			if err := rows.Scan(&m.log, &m.seq, &m.at, &vector); err != nil {
				return err
			}
			n.compared++
			var ok bool
			if m.score, m.part, ok = store.Packed(vector).Score(n.query.Vector); !ok || !n.best.Admits(m.score) {
				return nil
			}
			if part = append(part, m); len(part) == maxNear {
				return errStop
			}
			return nil
		})
	if errors.Is(err, errStop) {
		err = nil
	}
	return part, err
}

// compareEntries compares the vectors of an owner's newest entries.
func (n *vectorSearch) compareEntries(ctx context.Context, c *conn, o store.Owner) error {
	return c.each(ctx, `SELECT k.name, k.version, e.updated_at, v.vector FROM memory_keys k
JOIN memory_entries e ON e.key = k.id AND e.version = k.version
JOIN entry_vectors v ON v.key = k.id AND v.embedder = ? AND v.version = k.version
WHERE k.tenant = ? AND k.scope = ? AND k.owner = ? AND v.vector IS NOT NULL`,
		[]any{n.embedder, o.Tenant, string(o.Scope), o.Name}, func(rows *rows) error {
			p := store.Passage{Owner: o}
			var at int64
			var vector sql.RawBytes
			if err := rows.Scan(&p.Key, &p.Version, &at, &vector); err != nil {
				return err
			}
			p.At = instant(at)
			var ok bool
			if p.Score, p.Part, ok = store.Packed(vector).Score(n.query.Vector); ok {
				n.best.Add(p)
			}
			return nil
		})
}

// fill reads the text of a passage.
func (n *vectorSearch) fill(ctx context.Context, c *conn, p *store.Passage) error {
	if p.Key != "" {
		e, _, err := c.entry(ctx, p.Owner, p.Key, p.Version)
		p.Text = store.EntryText(e.Value)
		return err
	}
	return c.each(ctx, "SELECT n, log, "+columns+" FROM changes WHERE log = ? AND seq = ?",
		[]any{n.view.known[p.SessionID].logAt(p.Seq), p.Seq}, func(rows *rows) error {
			_, r, err := scanPlace(rows)
			if m, ok := r.message(); err == nil && ok {
				p.MessageID, p.Text = m.ID, store.MessageText(m)
			}
			return err
		})
}

// logAt is the log that holds a change of the session.
func (r *visibility) logAt(seq int64) int64 {
	for _, p := range r.parts {
		if seq > p.after && seq <= p.upTo {
			return p.log
		}
	}
	return 0
}
