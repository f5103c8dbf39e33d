package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// List finds sessions of one tenant. The database filters by its columns and
// sorts; the header decides whether a session matches.
func (s *Store) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return store.Page{}, err
	}
	q, after, err := q.Check()
	if err != nil {
		return store.Page{}, err
	}
	var l listing
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		l = listing{query: q, tenant: tenant, position: after}
		if err := l.findUnreadable(ctx, tx); err != nil {
			return err
		}
		return l.run(ctx, tx)
	})
	if err != nil {
		return store.Page{}, err
	}
	page := store.Page{Items: l.items, Corrupt: l.corrupt}
	if len(page.Items) > q.Limit {
		page.Items = page.Items[:q.Limit]
		page.Next = q.CursorAfter(page.Items[q.Limit-1])
	}
	slices.SortFunc(page.Corrupt, func(a, b *session.CorruptError) int { return strings.Compare(a.ID, b.ID) })
	return page, nil
}

// listing is one List call.
type listing struct {
	query    store.Query
	tenant   string
	position *store.Position // of the last row looked at

	items   session.Infos
	corrupt []*session.CorruptError
}

// listed is a row that may be listed. Its header is good until the next row.
type listed struct {
	headerRow
	CreatedAt time.Time
	Head      []byte   // of the newest snapshot,
	Since     [][]byte // and the changes since: only where metadata is asked for
}

func (l *listed) columns(metadata bool) []any {
	into := append(l.headerRow.columns(), &l.CreatedAt)
	into[2], into[3] = (*pgtype.DriverBytes)(&l.Header), (*pgtype.DriverBytes)(&l.HeaderSum)
	if metadata {
		into = append(into, &l.Head, &l.Since)
	}
	return into
}

// metadata is that of the last version.
func (l *listed) metadata() (session.Values, error) {
	last, err := foldSince(l.ID, l.Head, l.Since)
	if err != nil {
		return nil, err
	}
	return last.Metadata(), nil
}

// foldSince folds the last version, without its messages, from what
// sinceSnapshot reads.
func foldSince(id string, stored []byte, since [][]byte) (session.Session, error) {
	head, _, err := decodeHead(id, stored)
	if err != nil {
		return session.Session{}, err
	}
	records := make([]session.Record, len(since))
	for i, body := range since {
		if records[i], err = decodeBody(body); err != nil {
			return session.Session{}, store.Unreadable(id, "log", err)
		}
	}
	return folded(head, records, head.Version(), time.Time{})
}

// findUnreadable reports the sessions that cannot be read, whatever the query.
func (l *listing) findUnreadable(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT `+headerColumns+` FROM sessions s WHERE s.tenant = $1 AND s.unreadable`, l.tenant)
	if err != nil {
		return err
	}
	var row headerRow
	_, err = pgx.ForEachRow(rows, row.columns(), func() error {
		_, err := row.info()
		if err == nil {
			err = &session.CorruptError{ID: row.ID, Path: "header", Reason: "it does not match its format or checksum"}
		}
		l.report(row.ID, err)
		return nil
	})
	return err
}

func (l *listing) report(id string, err error) {
	var bad *session.CorruptError
	if !errors.As(err, &bad) {
		bad = &session.CorruptError{ID: id, Reason: err.Error()}
	}
	l.corrupt = append(l.corrupt, bad)
}

func (l *listing) reported(id string) bool {
	return slices.ContainsFunc(l.corrupt, func(c *session.CorruptError) bool { return c.ID == id })
}

// run reads rows in order until there is one more than the page holds.
func (l *listing) run(ctx context.Context, tx pgx.Tx) error {
	for {
		sql, args := l.statement()
		rows, err := tx.Query(ctx, sql, args)
		if err != nil {
			return err
		}
		looked := 0
		var row listed
		_, err = pgx.ForEachRow(rows, row.columns(len(l.query.Metadata) > 0), func() error {
			looked++
			l.add(&row)
			return nil
		})
		if err != nil {
			return err
		}
		l.position = &store.Position{Time: session.Instant(row.UpdatedAt), ID: row.ID}
		if l.query.Order == store.CreatedDesc {
			l.position.Time = session.Instant(row.CreatedAt)
		}
		if looked <= l.query.Limit || len(l.items) > l.query.Limit {
			return nil
		}
	}
}

// likelyFull is from how many sessions on a page takes memory for all it can hold.
const likelyFull = 64

// add puts a row on the page if it matches.
func (l *listing) add(row *listed) {
	if l.reported(row.ID) {
		return
	}
	info, err := row.info()
	fits := false
	if err == nil {
		fits, err = l.query.Match(info, row.metadata)
	}
	switch {
	case err != nil:
		l.report(row.ID, err)
	case fits && len(l.items) <= l.query.Limit:
		if len(l.items) == likelyFull {
			l.items = slices.Grow(l.items, l.query.Limit+1)
		}
		l.items = append(l.items, info)
	}
}

// statement reads the next rows after the position.
func (l *listing) statement() (string, pgx.NamedArgs) {
	q := l.query
	c := conditions{texts: []string{"l.tenant = @tenant"}, args: pgx.NamedArgs{"tenant": l.tenant, "limit": q.Limit + 1}}
	c.filter(q)
	var order, first string // first is what the listing alone orders by
	switch q.Order {
	case store.IDAsc:
		order = "s.id"
		c.after(l.position, "s.id > @after_id")
	case store.CreatedDesc: // the first condition is for the index
		order, first = "l.created_at DESC, s.id", "l.created_at DESC"
		c.after(l.position, "l.created_at <= @after_at AND (l.created_at < @after_at OR s.id > @after_id)")
	default:
		order, first = "l.updated_slot DESC, s.updated_at DESC, s.id", "l.updated_slot DESC"
		c.after(l.position, "l.updated_slot <= @after_slot AND (s.updated_at < @after_at OR s.updated_at = @after_at AND s.id > @after_id)")
	}
	columns := headerColumns + ", l.created_at"
	if len(q.Metadata) > 0 {
		columns += ", " + sinceSnapshot
	}
	from, where := "listing l", slices.Concat(c.texts, c.ofSessions, []string{"s.tenant = @tenant"})
	if first != "" && len(c.ofSessions) == 0 && len(q.Metadata) == 0 {
		// The listing decides alone which rows may be on the page, and no index has the
		// condition that is left: sessions are found by sid. A planner that knows
		// nothing of the tables yet would read and sort every session of the tenant.
		from = fmt.Sprintf("(SELECT l.sid, l.created_at, l.updated_slot FROM listing l WHERE %s ORDER BY %s FETCH FIRST @limit ROWS WITH TIES) l",
			strings.Join(c.texts, " AND "), first)
		where = []string{"s.tenant IS NOT DISTINCT FROM @tenant"}
	}
	return fmt.Sprintf(`SELECT %s FROM %s JOIN sessions s ON s.sid = l.sid WHERE %s ORDER BY %s LIMIT @limit`,
		columns, from, strings.Join(where, " AND "), order), c.args
}

// after adds the condition that a row comes after a position, if there is one.
func (c *conditions) after(p *store.Position, condition string) {
	if p != nil {
		c.ofSessions = append(c.ofSessions, condition)
		c.args["after_id"], c.args["after_at"], c.args["after_slot"] = p.ID, p.Time, slot(p.Time)
	}
}

// sinceSnapshot is what the last version is folded from.
const sinceSnapshot = `(SELECT n.head FROM snapshots n WHERE n.sid = s.sid AND n.version = s.snap_version),
	ARRAY(SELECT c.body FROM snapshots n JOIN changes c ON c.log = n.sid AND c.seq > n.seq AND c.seq <= s.seq
		WHERE n.sid = s.sid AND n.version = s.snap_version ORDER BY c.seq)`

// conditions are the WHERE clause of a listing and its arguments.
type conditions struct {
	texts      []string // of the table listing
	ofSessions []string // of the table sessions too
	args       pgx.NamedArgs
}

// filter adds what columns can decide. A value that a column cannot hold is NULL
// there, and the header decides.
func (c *conditions) filter(q store.Query) {
	oneOf(c, "kind", q.Kinds)
	oneOf(c, "status", q.Statuses)
	c.either("task_status", q.TaskStatuses)
	c.either("flow_status", q.WorkflowStatuses)
	if len(q.Kinds) == 0 {
		c.texts = append(c.texts, "l.kind <> '"+string(session.KindPolicy)+"'")
	}
	if len(q.Statuses) == 0 && !q.IncludeDeleted {
		c.texts = append(c.texts, "l.status <> '"+string(session.Deleted)+"'")
	}
	for name, value := range map[string]string{
		"agent_name": q.Agent, "parent_id": q.ParentID, "origin": string(q.Origin), "user_id": q.UserID, "name": q.Name,
	} {
		if value != "" {
			c.either(name, []string{value})
		}
	}
	if q.Pending {
		c.ofSessions = append(c.ofSessions, "s.pending")
	}
	if prefix := column(q.IDPrefix); prefix != nil {
		c.ofSessions = append(c.ofSessions, "s.id >= @prefix AND starts_with(s.id, @prefix)")
		c.args["prefix"] = *prefix
	}
	for condition, t := range map[string]time.Time{
		"l.created_at > @created_after": q.CreatedAfter, "l.created_at < @created_before": q.CreatedBefore,
		"s.updated_at > @updated_after": q.UpdatedAfter, "s.updated_at < @updated_before": q.UpdatedBefore,
	} {
		if !t.IsZero() {
			of := &c.texts
			if strings.HasPrefix(condition, "s.") {
				of = &c.ofSessions
			}
			*of = append(*of, condition)
			_, name, _ := strings.Cut(condition, "@")
			c.args[name] = moment(t, strings.HasSuffix(name, "before"))
		}
	}
	c.addTagFilter(q.Metadata)
	slices.Sort(c.texts) // one text for one query, so that it is prepared once
	slices.Sort(c.ofSessions)
}

// moment is a time as the database takes it, with microseconds. An end with
// more than that is moved up, because columns are compared with it.
func moment(t time.Time, end bool) time.Time {
	rounded := session.Instant(t)
	if end && rounded.Before(t) {
		rounded = rounded.Add(time.Microsecond)
	}
	return rounded
}

// either adds that a column has one of several values.
func (c *conditions) either(name string, values []string) {
	if len(values) == 0 {
		return
	}
	var known []string
	for _, v := range values {
		if text := column(v); text != nil {
			known = append(known, *text)
		}
	}
	if len(known) < len(values) {
		return // the header decides
	}
	if len(known) == 1 {
		c.texts, c.args[name] = append(c.texts, fmt.Sprintf("l.%[1]s = @%[1]s", name)), known[0]
		return
	}
	c.texts, c.args[name] = append(c.texts, fmt.Sprintf("l.%[1]s = ANY (@%[1]s::text[])", name)), known
}

// oneOf adds that a column has one of several values out of a closed set. They
// are part of the text, for the planner to see that an index of some of the
// set will do.
func oneOf[T ~string](c *conditions, name string, values []T) {
	if len(values) > 0 {
		quoted := slices.Sorted(slices.Values(texts(values)))
		c.texts = append(c.texts, "l."+name+" IN ('"+strings.Join(slices.Compact(quoted), "', '")+"')")
	}
}

func texts[T ~string](values []T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}
