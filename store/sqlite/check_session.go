package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// examination compares what is stored beside a session's log with the log. The
// log and the commits are the truth.
type examination struct {
	problems []string

	// lost says that the log itself is damaged or was written by a newer program,
	// so that nothing can be repaired from it.
	lost  bool
	heads bool // some are wrong or missing
	row   bool // is wrong

	log    row             // the row, bounded as the log says
	sealed session.Session // the last version
	whole  session.Session // with the open tail
	live   int64           // changes of the tail in force
}

func (e *examination) find(format string, args ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

// findLost adds a problem that cannot be repaired.
func (e *examination) findLost(format string, args ...any) {
	e.lost = true
	e.find(format, args...)
}

// examine folds a session's log from its beginning and compares.
func (c *conn) examine(ctx context.Context, r store.Ref, w row) (examination, error) {
	e := examination{log: w}
	if err := c.bound(ctx, &e); err != nil {
		return e, err
	}
	for _, look := range []func(context.Context, *conn, store.Ref) error{e.foldLog, e.compareRow, e.compareTags} {
		err := look(ctx, c, r)
		switch {
		case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrNewerFormat):
			e.findLost("%v", err)
		case err != nil:
			return e, err
		}
		if e.lost {
			break // there is nothing to compare with
		}
	}
	return e, nil
}

// bound reads where the log begins and ends. A row that ends earlier can be
// repaired; one that ends later shows that changes were lost.
func (c *conn) bound(ctx context.Context, e *examination) error {
	w := &e.log
	_, err := c.one(ctx, `SELECT coalesce((SELECT max(upto_seq) FROM lineage WHERE log = ?1), 0),
	max(coalesce((SELECT max(seq) FROM changes WHERE log = ?1), 0), coalesce((SELECT max(upto_seq) FROM lineage WHERE log = ?1), 0)),
	coalesce((SELECT sum FROM changes WHERE log = ?1 ORDER BY seq DESC LIMIT 1), 0)`,
		[]any{w.log}, &w.forkedAt, &w.last, (*int64)(&w.lastSum))
	return err
}

// foldLog folds every version and compares the heads with them.
func (e *examination) foldLog(ctx context.Context, c *conn, r store.Ref) error {
	heads, err := c.headsOf(ctx, e.log.log)
	if err != nil {
		return err
	}
	if _, ok := heads[1]; !ok {
		e.heads = true
		e.find("there is no head of its first version")
	}
	rest, err := c.eachVersion(ctx, r, e.log, func(s session.Session) error {
		e.sealed = s
		h, ok := heads[s.Version()]
		if !ok {
			return nil
		}
		delete(heads, s.Version())
		return e.compareHead(r, h)
	})
	if err != nil {
		return err
	}
	for version := range heads {
		e.heads = true
		e.find("a head of version %d belongs to no version", version)
	}
	if e.whole, err = session.ApplyTail(e.sealed, rest); err != nil {
		return store.Unreadable(r.ID, "tail", err)
	}
	_, err = c.one(ctx, "SELECT count(*) FROM changes WHERE log = ? AND seq > ? AND discarded = 0 AND kind <> ?",
		[]any{e.log.log, e.sealed.Seq(), tailDiscarded}, &e.live)
	return err
}

// compareHead compares a head with its version.
func (e *examination) compareHead(r store.Ref, h head) error {
	_, err := h.decode(r)
	if errors.Is(err, session.ErrNewerFormat) {
		return err
	}
	want, encodeErr := session.EncodeHead(e.sealed)
	if encodeErr != nil {
		return encodeErr
	}
	switch {
	case err != nil:
		e.find("%v", err)
	case !bytes.Equal(want, h.data) || h.seq != e.sealed.Seq():
		e.find("the head of version %d is not what the log makes", h.version)
	default:
		return nil
	}
	e.heads = true
	return nil
}

// eachVersion folds a session's log version by version, and returns the changes
// of the open tail. CorruptError: the log or its commits have a gap.
func (c *conn) eachVersion(ctx context.Context, r store.Ref, w row, visit func(session.Session) error) (tail []session.Record, err error) {
	f, err := c.replay(ctx, r, w)
	if err != nil {
		return nil, err
	}
	commits, err := c.commitsIn(ctx, r.ID, w.log, 0, math.MaxInt64, math.MaxInt)
	if err != nil {
		return nil, err
	}
	gap := func(format string, args ...any) error {
		return &session.CorruptError{ID: r.ID, Path: "commits", Reason: fmt.Sprintf(format, args...)}
	}
	for i, commit := range commits {
		first := f.next()
		if err := f.seal(commit); err != nil {
			return nil, store.Unreadable(r.ID, "log", err)
		}
		switch {
		case commit.Version != int64(i+1) || commit.FirstSeq != first:
			return nil, gap("%d does not follow the one before it", commit.Version)
		case commit.LastSeq != f.s.Seq():
			return nil, gap("%d ends at change %d, the log at %d", commit.Version, commit.LastSeq, f.s.Seq())
		}
		if err := visit(f.s); err != nil {
			return nil, err
		}
	}
	if n := int64(len(commits)); n < w.version || n == 0 {
		return nil, gap("%d are there, the version is %d", n, w.version)
	}
	return f.records, nil
}

// compareRow compares the session's row with its log.
func (e *examination) compareRow(ctx context.Context, c *conn, r store.Ref) error {
	names, want, err := e.columns(r)
	if err != nil {
		return err
	}
	have, into := make([]any, len(names)), make([]any, len(names))
	for i := range have {
		into[i] = &have[i]
	}
	if err := c.each(ctx, "SELECT "+strings.Join(names, ", ")+" FROM sessions WHERE log = ?", []any{e.log.log}, func(rows *rows) error {
		return rows.Scan(into...)
	}); err != nil {
		return err
	}
	for i, name := range names {
		if have[i] == want[i] || name == "due" && have[i] == int64(dueUnknown) {
			continue
		}
		e.row = true
		switch last, isNumber := have[i].(int64); {
		case name == "header":
			if _, err := session.DecodeHeader([]byte(fmt.Sprint(have[i]))); errors.Is(err, session.ErrNewerFormat) {
				return err
			}
			e.find("the header is not what the log makes")
		case name == "last_seq" && isNumber && last > e.log.last:
			e.findLost("the row says change %d, the log ends at %d", last, e.log.last)
		default:
			e.find("%s in its row is %v, the log makes %v", name, have[i], want[i])
		}
	}
	return nil
}

// columns are those of the session's row that follow from the log.
func (e *examination) columns(r store.Ref) (names []string, values []any, err error) {
	i := e.sealed.Info()
	shown := e.whole.Info()
	i.Task, i.Workflow = shown.Task, shown.Workflow
	by := filtersOf(i)
	header, err := encodeHeader(i)
	w := row{
		agentID: e.sealed.AgentID(), version: i.Version, seq: i.Seq, last: e.log.last, forkedAt: e.log.forkedAt,
		lastSum: e.log.lastSum, headerSum: headerSum(r, []byte(header)),
	}
	open, tagged := int64(0), int64(0)
	if e.live > 0 || e.whole.Running() {
		open = 1
	}
	if _, ok := session.Tags(e.sealed); ok {
		tagged = 1
	}
	for _, column := range []struct {
		name  string
		value any
	}{
		{"agent_id", e.sealed.AgentID()},
		{"version", i.Version},
		{"seq", i.Seq},
		{"last_seq", e.log.last},
		{"forked_at", e.log.forkedAt},
		{"tail_live", e.live},
		{"open", open},
		{"due", dueOf(e.whole)},
		{"kind", string(i.Kind)},
		{"status", by.status},
		{"name", by.name},
		{"user_id", i.UserID},
		{"parent_id", i.ParentID},
		{"origin", by.origin},
		{"agent_name", i.AgentName},
		{"task_status", orNull(by.task)},
		{"workflow_status", orNull(by.workflow)},
		{"created_at", micros(i.CreatedAt)},
		{"updated_at", micros(i.UpdatedAt)},
		{"header", header},
		{"last_sum", int64(w.lastSum)},
		{"header_sum", w.headerSum},
		{"row_sum", w.checksum(r)},
		{"tagged", tagged},
	} {
		names, values = append(names, column.name), append(values, column.value)
	}
	return names, values, err
}

// replayed is a session that is being folded from its log.
type replayed struct {
	s       session.Session
	records []session.Record // not folded yet
}

// replay reads a session's whole log and folds what its ancestors hold.
func (c *conn) replay(ctx context.Context, r store.Ref, w row) (replayed, error) {
	parts, err := c.history(ctx, w, w.last)
	if err != nil {
		return replayed{}, err
	}
	var f replayed
	err = c.follow(ctx, r, w, parts, reading{upTo: w.last}, func(l logRow) error {
		record, err := l.record(r.ID)
		f.records = append(f.records, record)
		return err
	})
	if err != nil {
		return replayed{}, err
	}
	return f, store.Unreadable(r.ID, "log", f.fold(w.forkedAt))
}

// fold folds the records up to a number.
func (f *replayed) fold(upTo int64) (err error) {
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
func (f *replayed) next() int64 {
	if f.s.IsZero() {
		return 1
	}
	return f.s.Seq() + 1
}

func (f *replayed) seal(commit store.CommitInfo) error {
	if err := f.fold(commit.LastSeq); err != nil {
		return err
	}
	if f.s.IsZero() {
		return &session.InvalidError{Field: "log", Reason: "is empty"}
	}
	f.s = session.Seal(f.s, commit.At)
	return nil
}

// headsOf reads all heads of a session, by version.
func (c *conn) headsOf(ctx context.Context, log int64) (map[int64]head, error) {
	heads := map[int64]head{}
	err := c.each(ctx, "SELECT n, version, seq, log_sum, sum, data FROM heads WHERE log = ?", []any{log}, func(rows *rows) error {
		var h head
		err := rows.Scan(&h.n, &h.version, &h.seq, &h.logSum, &h.sum, &h.data)
		heads[h.version] = h
		return err
	})
	return heads, err
}
