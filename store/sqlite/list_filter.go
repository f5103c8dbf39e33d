package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// indexChoice is an index that finds the sessions with one of some values, in no
// order. It is worth using if they are few.
type indexChoice struct {
	name, column string
	values       []any
}

// few is how many sessions are sorted rather than found by reading in order.
const few = 1000

// indexes lists those that a query could use.
func (l *listing) indexes() []indexChoice {
	q := l.query
	all := []indexChoice{
		{"sessions_by_status", "status", anys(q.Statuses)}, {"sessions_by_kind", "kind", anys(q.Kinds)},
	}
	for _, p := range []struct{ index, column, value string }{
		{"sessions_by_agent", "agent_name", q.Agent}, {"sessions_by_user", "user_id", q.UserID},
		{"sessions_by_name", "name", q.Name}, {"sessions_by_parent", "parent_id", q.ParentID},
	} {
		if p.value != "" {
			all = append(all, indexChoice{p.index, p.column, []any{p.value}})
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

// choose picks the index that finds the fewest sessions, if one finds few.
// Otherwise sessions are read in the listing's order, and matching ones come
// soon because there are many.
func (l *listing) choose(ctx context.Context, c *conn) error {
	if l.query.Pending { // few sessions wait at any time
		l.index = indexChoice{name: "sessions_pending"}
		return nil
	}
	fewest := int64(few)
	for _, p := range l.indexes() {
		if len(p.values) == 0 {
			continue
		}
		var n int64
		text := fmt.Sprintf("SELECT count(*) FROM (SELECT 1 FROM sessions INDEXED BY %s WHERE tenant = ? AND %s LIMIT +?)", p.name, p.term())
		err := c.each(ctx, text, slices.Concat([]any{l.tenant}, p.values, []any{few}), func(rows *rows) error { return rows.Scan(&n) })
		if err != nil {
			return err
		}
		if n < fewest {
			fewest, l.index = n, p
		}
	}
	for key, value := range l.query.Metadata {
		tags := session.TagsOf(key, value)
		var n int64
		text := fmt.Sprintf("SELECT count(*) FROM (%s LIMIT +?)", withTag)
		err := c.each(ctx, text, append(l.tagArgs(tags), few), func(rows *rows) error { return rows.Scan(&n) })
		if err != nil {
			return err
		}
		if n < fewest {
			fewest, l.tag = n, &tags
		}
	}
	return nil
}

// withTag finds the sessions of a tenant that have one of two tags, or no tags.
const withTag = "SELECT log FROM tags WHERE tenant = ? AND tag IN (?, ?) UNION ALL SELECT log FROM sessions INDEXED BY sessions_untagged WHERE tenant = ? AND tagged = 0"

func (l *listing) tagArgs(tags [2]int64) []any { return []any{l.tenant, tags[0], tags[1], l.tenant} }

// term is the SQL condition for the index, which may be one of values that are
// not empty.
func (p indexChoice) term() string {
	if p.column == "" { // the same text as that of the index
		return `instr(header, '"pending":') > 0`
	}
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

// anyOf asks for one of some values if any are given. The plus sign keeps SQLite
// from using an index that was not chosen.
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
	switch {
	case l.tag != nil:
		f.and("log IN ("+withTag+")", l.tagArgs(*l.tag)...)
	case l.index.name != "":
		f.and(l.index.term(), l.index.values...)
	}
	for key, value := range q.Metadata {
		tags := session.TagsOf(key, value)
		f.and("(tagged = 0 OR EXISTS (SELECT 1 FROM tags t WHERE t.tenant = ? AND t.tag IN (?, ?) AND t.log = sessions.log))", l.tenant, tags[0], tags[1])
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

// ceiling is a time in microseconds, rounded up: what is before the exact time
// is before that, too.
func ceiling(t time.Time) int64 {
	if t.Nanosecond()%1000 != 0 {
		return micros(t) + 1
	}
	return micros(t)
}

// filterAfter leaves out the pages before.
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
