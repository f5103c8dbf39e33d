package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Check reads the whole database and lists what is wrong with it: damaged pages,
// rows that belong to nothing, sessions whose stored state is not what their log
// makes, a wrong index of words, and passages that no embedder would be asked
// for.
func (s *Store) Check(ctx context.Context, p store.Progress) (problems []string, err error) {
	refs, err := s.everySession(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.read(ctx, func(ctx context.Context, c *conn) error {
		if problems, err = c.damage(ctx); err != nil {
			return err
		}
		items, err := c.damagedItems(ctx)
		problems = append(problems, items...)
		return err
	}); err != nil {
		return nil, err
	}
	total := len(refs) + 1 // the index is one more
	for i, r := range refs {
		p.Report(i, total)
		e, err := s.examineSession(ctx, r)
		if err != nil {
			return nil, err
		}
		problems = append(problems, e.described(r)...)
	}
	p.Report(len(refs), total)
	found, err := s.checkIndex(ctx)
	if err != nil {
		return nil, err
	}
	problems = append(problems, found...)
	if found, err = s.checkVectors(ctx); err != nil {
		return nil, err
	}
	p.Report(total, total)
	return append(problems, found...), nil
}

// everySession lists the sessions of all tenants.
func (s *Store) everySession(ctx context.Context) ([]store.Ref, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var refs []store.Ref
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, "SELECT tenant, id FROM sessions ORDER BY tenant, id", nil, func(rows *rows) error {
			var r store.Ref
			err := rows.Scan(&r.Tenant, &r.ID)
			refs = append(refs, r)
			return err
		})
	})
	return refs, err
}

// damage lists what is wrong with the tables themselves.
func (c *conn) damage(ctx context.Context) ([]string, error) {
	var problems []string
	for _, query := range []string{
		// The check of an index uses what the connection has cached of it. A query
		// first makes SQLite drop what other connections have changed.
		"SELECT '' FROM message_words WHERE rowid < 0",
		"SELECT '' FROM entry_words WHERE rowid < 0",
		"SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
		`SELECT 'a row of ' || "table" || ' belongs to no ' || parent FROM pragma_foreign_key_check`,
		`SELECT DISTINCT 'log ' || log || ' belongs to no session and no fork needs it' FROM changes c
WHERE log NOT IN (SELECT log FROM sessions) AND seq > coalesce((SELECT max(upto_seq) FROM lineage WHERE ancestor = c.log), 0)`,
		`SELECT 'session ' || id || ' of ' || tenant || ' has change ' || c.seq || ' outside its log' FROM changes c
JOIN sessions s USING (log) WHERE c.seq > s.last_seq OR c.seq <= s.forked_at`,
		`SELECT 'session ' || id || ' of ' || tenant || ' has no log of its ancestor ' || ancestor FROM lineage l
JOIN sessions s USING (log) WHERE NOT EXISTS (SELECT 1 FROM changes WHERE log = l.ancestor AND seq = l.upto_seq)`,
		`SELECT 'memory ' || name || ' of ' || scope || ' ' || owner || ' in ' || tenant || ' does not count its versions' FROM memory_keys k
WHERE version < (SELECT max(version) FROM memory_entries WHERE key = k.id)`,
	} {
		err := c.each(ctx, query, nil, func(rows *rows) error {
			var problem string
			err := rows.Scan(&problem)
			problems = append(problems, problem)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return problems, nil
}

// damagedItems lists the items of inboxes, taken or not, that were altered.
func (c *conn) damagedItems(ctx context.Context) (problems []string, err error) {
	err = c.each(ctx, "SELECT i.log, s.id, s.tenant, i.id, i.data, i.sum FROM inbox i JOIN sessions s USING (log)", nil, func(rows *rows) error {
		var log, sum int64
		var r store.Ref
		var id string
		var data sql.RawBytes
		if err := rows.Scan(&log, &r.ID, &r.Tenant, &id, &data, &sum); err != nil {
			return err
		}
		if itemSum(log, id, data) != sum {
			problems = append(problems, fmt.Sprintf("session %s of %s: item %s of its inbox does not match its checksum", r.ID, r.Tenant, id))
		}
		return nil
	})
	return problems, err
}

// CheckSession lists what is wrong with one session.
func (s *Store) CheckSession(ctx context.Context, r store.Ref) ([]string, error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return nil, err
	}
	var e examination
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		w, found, err := c.find(ctx, r, 0)
		if err == nil && !found {
			return session.NotFound(r.ID)
		}
		if err == nil {
			e, err = c.examine(ctx, r, w)
		}
		return err
	})
	return e.described(r), err
}

// examineSession examines a session, which may be gone.
func (s *Store) examineSession(ctx context.Context, r store.Ref) (e examination, err error) {
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		w, found, err := c.find(ctx, r, 0)
		if err != nil || !found { // deleted meanwhile
			return err
		}
		e, err = c.examine(ctx, r, w)
		return err
	})
	return e, err
}

func (e examination) described(r store.Ref) []string {
	var list []string
	for _, problem := range e.problems {
		list = append(list, fmt.Sprintf("session %s of %s: %s", r.ID, r.Tenant, problem))
	}
	return list
}
