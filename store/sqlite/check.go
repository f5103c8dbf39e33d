package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Check reads the whole database and lists what is wrong with it, nothing
// where all is well: pages that SQLite finds damaged, rows that belong to
// nobody, and sessions whose kept state is not what their log makes. It
// changes nothing and may run while the store is in use. An error means that
// it could not look.
func (s *Store) Check(ctx context.Context, p store.Progress) (problems []string, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var refs []store.Ref
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		if problems, err = c.damage(ctx); err != nil {
			return err
		}
		return c.each(ctx, "SELECT tenant, id FROM sessions ORDER BY tenant, id", nil, func(rows *sql.Rows) error {
			var r store.Ref
			err := rows.Scan(&r.Tenant, &r.ID)
			refs = append(refs, r)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	for i, r := range refs {
		p.Report(i, len(refs))
		found, err := s.checkSession(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, problem := range found {
			problems = append(problems, fmt.Sprintf("session %s of %s: %s", r.ID, r.Tenant, problem))
		}
	}
	return problems, nil
}

// damage is what is wrong with the tables as such.
func (c *conn) damage(ctx context.Context) ([]string, error) {
	var problems []string
	for _, query := range []string{
		"SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
		`SELECT 'a row of ' || "table" || ' belongs to no session' FROM pragma_foreign_key_check`,
		`SELECT DISTINCT 'log ' || log || ' belongs to no session and no fork needs it' FROM changes c
WHERE log NOT IN (SELECT log FROM sessions) AND seq > coalesce((SELECT max(upto_seq) FROM lineage WHERE ancestor = c.log), 0)`,
		`SELECT 'session ' || id || ' of ' || tenant || ' has change ' || c.seq || ' outside its log' FROM changes c
JOIN sessions s USING (log) WHERE c.seq > s.last_seq OR c.seq <= s.forked_at`,
		`SELECT 'session ' || id || ' of ' || tenant || ' has no log of its ancestor ' || ancestor FROM lineage l
JOIN sessions s USING (log) WHERE NOT EXISTS (SELECT 1 FROM changes WHERE log = l.ancestor AND seq = l.upto_seq)`,
	} {
		err := c.each(ctx, query, nil, func(rows *sql.Rows) error {
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

// checkSession folds a session's log from its beginning and compares.
func (s *Store) checkSession(ctx context.Context, r store.Ref) ([]string, error) {
	var problems []string
	err := s.readSession(ctx, r, func(ctx context.Context, c *conn, w row) (err error) {
		problems, err = c.compare(ctx, r, w)
		return err
	})
	switch {
	case errors.Is(err, session.ErrNotFound): // deleted meanwhile
		return nil, nil
	case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrNewerFormat):
		return append(problems, err.Error()), nil
	}
	return problems, err
}

// compare holds every head and the header against a fold of the log.
func (c *conn) compare(ctx context.Context, r store.Ref, w row) ([]string, error) {
	f, err := c.replay(ctx, r, w)
	if err != nil {
		return nil, err
	}
	commits, err := c.commitsIn(ctx, w.log, 0, math.MaxInt64, math.MaxInt)
	if err != nil {
		return nil, err
	}
	heads, err := c.headsOf(ctx, w.log)
	if err != nil {
		return nil, err
	}
	var problems []string
	for i, commit := range commits {
		if commit.Version != int64(i+1) || commit.FirstSeq != f.next() {
			problems = append(problems, fmt.Sprintf("commit %d does not follow the one before it", commit.Version))
		}
		if err := f.seal(commit); err != nil {
			return problems, unreadable(r.ID, "log", err)
		}
		if h, ok := heads[commit.Version]; ok {
			same, err := f.is(r, h)
			if err != nil {
				return problems, err
			}
			if !same {
				problems = append(problems, fmt.Sprintf("the head of version %d is not what the log makes", commit.Version))
			}
			delete(heads, commit.Version)
		}
	}
	if !w.head.n.Valid {
		problems = append(problems, "there is no head")
	}
	for version := range heads {
		problems = append(problems, fmt.Sprintf("a head of version %d belongs to no version", version))
	}
	return append(problems, f.compareRow(w)...), nil
}

// refold is a session in the making from its log.
type refold struct {
	s       session.Session
	records []session.Record // not folded yet
}

// replay reads a session's whole log and folds what its ancestors hold.
func (c *conn) replay(ctx context.Context, r store.Ref, w row) (refold, error) {
	parts, err := c.history(ctx, w, w.last)
	if err != nil {
		return refold{}, err
	}
	var f refold
	for _, p := range parts {
		records, err := c.recordsIn(ctx, r.ID, p)
		if err != nil {
			return refold{}, err
		}
		f.records = append(f.records, records...)
	}
	return f, unreadable(r.ID, "log", f.fold(w.forkedAt))
}

// fold takes in the records up to a number.
func (f *refold) fold(upTo int64) (err error) {
	n := 0
	for n < len(f.records) && f.records[n].Seq <= upTo {
		n++
	}
	if n > 0 {
		f.s, err = session.FoldFrom(f.s, f.records[:n])
		f.records = f.records[n:]
	}
	return err
}

// next is the number of the first change not folded yet.
func (f *refold) next() int64 {
	if f.s.IsZero() {
		return 1
	}
	return f.s.Seq() + 1
}

func (f *refold) seal(commit store.CommitInfo) error {
	if err := f.fold(commit.LastSeq); err != nil {
		return err
	}
	if f.s.IsZero() {
		return &session.InvalidError{Field: "log", Reason: "is empty"}
	}
	f.s = f.s.Sealed(commit.At)
	return nil
}

// is reports whether a head holds the session as it is now.
func (f *refold) is(r store.Ref, h head) (bool, error) {
	if _, err := h.decode(r); err != nil {
		return false, err
	}
	data, err := f.s.EncodeHead()
	return bytes.Equal(data, h.data) && h.seq == f.s.Seq(), err
}

// compareRow holds the session's row against its log, the open tail included.
func (f *refold) compareRow(w row) []string {
	var problems []string
	if f.s.IsZero() || f.s.Version() != w.version || f.s.Seq() != w.seq || f.s.AgentID() != w.agentID {
		return append(problems, fmt.Sprintf("the row says version %d, which is not where the log ends", w.version))
	}
	whole, err := f.s.WithTail(f.records)
	if err != nil {
		return append(problems, "the open tail cannot be read: "+err.Error())
	}
	if whole.Seq() != w.last || whole.HasTail() != (w.live > 0) {
		problems = append(problems, "the row does not say what the open tail is")
	}
	want := f.s.Info()
	want.Task, want.Workflow = whole.Info().Task, whole.Info().Workflow
	header, err := encodeHeader(want)
	if err != nil || header != w.header {
		problems = append(problems, "the header is not what the log makes")
	}
	return problems
}

// headsOf reads all heads of a session, by version.
func (c *conn) headsOf(ctx context.Context, log int64) (map[int64]head, error) {
	heads := map[int64]head{}
	err := c.each(ctx, "SELECT n, version, seq, sum, data FROM heads WHERE log = ?", []any{log}, func(rows *sql.Rows) error {
		var h head
		err := rows.Scan(&h.n, &h.version, &h.seq, &h.sum, &h.data)
		heads[h.version] = h
		return err
	})
	return heads, err
}
