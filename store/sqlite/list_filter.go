package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// path is a way to the sessions that have one of some values, in no order. It
// is worth taking where they are few.
type path struct {
	index, column string
	values        []any
}

// few is how many sessions are sorted rather than looked for among all.
const few = 1000

// paths are those that a query could take.
func (l *listing) paths() []path {
	q := l.query
	all := []path{
		{"sessions_by_status", "status", anys(q.Statuses)}, {"sessions_by_kind", "kind", anys(q.Kinds)},
	}
	for _, p := range []struct{ index, column, value string }{
		{"sessions_by_agent", "agent_name", q.Agent}, {"sessions_by_user", "user_id", q.UserID},
		{"sessions_by_name", "name", q.Name}, {"sessions_by_parent", "parent_id", q.ParentID},
	} {
		if p.value != "" {
			all = append(all, path{p.index, p.column, []any{p.value}})
		}
	}
	return all
}

func anys[T ~string](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

// choose takes the path that leads to the fewest sessions, if one leads to
// few. Otherwise the order leads, and what fits is soon found because there is
// much of it.
func (l *listing) choose(ctx context.Context, c *conn) error {
	fewest := int64(few)
	for _, p := range l.paths() {
		if len(p.values) == 0 {
			continue
		}
		var n int64
		text := fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM sessions INDEXED BY %s WHERE tenant = ? AND %s LIMIT ?)", p.index, p.term())
		err := c.eachOf(ctx, text, slices.Concat([]any{l.tenant}, p.values, []any{few}), func(rows *sql.Rows) error { return rows.Scan(&n) })
		if err != nil {
			return err
		}
		if n < fewest {
			fewest, l.path = n, p
		}
	}
	return nil
}

// term is the condition that the path's index serves. The index may be one of
// what is not empty.
func (p path) term() string {
	return p.column + " IN (?" + strings.Repeat(", ?", len(p.values)-1) + ") AND " + p.column + " <> ''"
}

// filter is the condition of a query, with its values apart.
type filter struct {
	terms []string
	args  []any
}

func (f *filter) and(term string, args ...any) {
	f.terms, f.args = append(f.terms, term), append(f.args, args...)
}

// anyOf asks for one of some values where some are given. The sign keeps
// SQLite from taking a path that was not chosen.
func (f *filter) anyOf(column string, values []any) {
	if len(values) > 0 {
		f.and("+"+column+" IN (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
	}
}

func (f *filter) equal(column, value string) {
	if value != "" {
		f.anyOf(column, []any{value})
	}
}

func (l *listing) filter() filter {
	q, f := l.query, filter{}
	f.and("tenant = ?", l.tenant)
	if l.path.index != "" {
		f.and(l.path.term(), l.path.values...)
	}
	if f.anyOf("kind", anys(q.Kinds)); len(q.Kinds) == 0 {
		f.and("+kind <> ?", string(session.KindPolicy))
	}
	if f.anyOf("status", anys(q.Statuses)); len(q.Statuses) == 0 && !q.IncludeDeleted {
		f.and("+status <> ?", string(session.Deleted))
	}
	f.anyOf("task_status", anys(q.TaskStatuses))
	f.anyOf("workflow_status", anys(q.WorkflowStatuses))
	f.equal("agent_name", q.Agent)
	f.equal("parent_id", q.ParentID)
	f.equal("origin", string(q.Origin))
	f.equal("user_id", q.UserID)
	f.equal("name", q.Name)
	if q.IDPrefix != "" {
		f.and("id >= ? AND substr(id, 1, ?) = ?", q.IDPrefix, len(q.IDPrefix), q.IDPrefix)
	}
	for _, bound := range []struct {
		term string
		at   time.Time
	}{{"created_at > ?", q.CreatedAfter}, {"updated_at > ?", q.UpdatedAfter}} {
		if !bound.at.IsZero() {
			f.and(bound.term, micros(bound.at))
		}
	}
	for _, bound := range []struct {
		term string
		at   time.Time
	}{{"created_at < ?", q.CreatedBefore}, {"updated_at < ?", q.UpdatedBefore}} {
		if !bound.at.IsZero() {
			f.and(bound.term, ceiling(bound.at))
		}
	}
	l.filterAfter(&f)
	return f
}

// ceiling is a moment in microseconds, rounded up: before it is before the
// exact moment too.
func ceiling(t time.Time) int64 {
	if t.Nanosecond()%1000 != 0 {
		return micros(t) + 1
	}
	return micros(t)
}

// filterAfter leaves out what stands up to the end of the page before.
func (l *listing) filterAfter(f *filter) {
	if l.after == nil {
		return
	}
	switch l.query.Order {
	case store.IDAsc:
		f.and("id > ?", l.after.ID)
	case store.CreatedDesc:
		f.and("created_at <= ? AND (created_at < ? OR id > ?)", micros(l.after.Time), micros(l.after.Time), l.after.ID)
	default:
		f.and("updated_at <= ? AND (updated_at < ? OR id > ?)", micros(l.after.Time), micros(l.after.Time), l.after.ID)
	}
}
