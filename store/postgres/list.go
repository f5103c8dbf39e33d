package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// List finds sessions of one tenant. The database narrows the search and
// sorts; whether a session fits is decided by its header.
func (s *Store) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	if err := s.openTenant(ctx, tenant); err != nil {
		return store.Page{}, err
	}
	q, after, err := q.Check()
	if err != nil {
		return store.Page{}, err
	}
	var l listing
	err = s.consistent(ctx, func(tx pgx.Tx) error {
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

// listing is a search on its way.
type listing struct {
	query    store.Query
	tenant   string
	position *store.Position // of the last row looked at

	items   session.Infos
	corrupt []*session.CorruptError
}

// listed is a row as a search sees it.
type listed struct {
	ID       string
	At       time.Time
	Header   []byte
	TailRows []byte
	Head     []byte   // of the newest snapshot,
	Since    [][]byte // and the changes since: only where metadata is asked for
}

// metadata is what the last version has.
func (l listed) metadata() (session.Values, error) {
	head, err := decodeHead(l.ID, l.Head)
	if err != nil {
		return nil, err
	}
	records := make([]session.Record, len(l.Since))
	for i, body := range l.Since {
		if err := records[i].UnmarshalJSON(body); err != nil {
			return nil, unreadable(l.ID, "log", err)
		}
	}
	if head, err = folded(head, records, head.Version(), time.Time{}); err != nil {
		return nil, err
	}
	return head.Metadata(), nil
}

// findUnreadable names what cannot be read, whatever is searched for.
func (l *listing) findUnreadable(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT id, updated_at, header, tail_rows, NULL::bytea, NULL::bytea[] FROM sessions WHERE tenant = $1 AND unreadable`, l.tenant)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[listed])
	for _, row := range found {
		_, err := decodeHeader(row.ID, row.Header, row.TailRows)
		if err == nil {
			err = &session.CorruptError{ID: row.ID, Path: "header", Reason: "it does not match its format or checksum"}
		}
		l.complain(row.ID, err)
	}
	return err
}

func (l *listing) complain(id string, err error) {
	var bad *session.CorruptError
	if !errors.As(err, &bad) {
		bad = &session.CorruptError{ID: id, Reason: err.Error()}
	}
	l.corrupt = append(l.corrupt, bad)
}

func (l *listing) complained(id string) bool {
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
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[listed])
		if err != nil {
			return err
		}
		for _, row := range found {
			l.look(row)
		}
		if len(found) <= l.query.Limit || len(l.items) > l.query.Limit {
			return nil
		}
	}
}

// look takes a row in if it fits.
func (l *listing) look(row listed) {
	l.position = &store.Position{Time: session.Instant(row.At), ID: row.ID}
	if l.complained(row.ID) {
		return
	}
	info, err := decodeHeader(row.ID, row.Header, row.TailRows)
	fits := false
	if err == nil {
		fits, err = l.query.Match(info, row.metadata)
	}
	switch {
	case err != nil:
		l.complain(row.ID, err)
	case fits && len(l.items) <= l.query.Limit:
		l.items = append(l.items, info)
	}
}

// statement reads the next rows after the position.
func (l *listing) statement() (string, pgx.NamedArgs) {
	q := l.query
	c := conditions{texts: []string{"tenant = @tenant"}, args: pgx.NamedArgs{"tenant": l.tenant, "limit": q.Limit + 1}}
	c.narrow(q)
	order, at := "updated_slot DESC, updated_at DESC, id", "updated_at"
	switch q.Order {
	case store.CreatedDesc:
		order, at = "created_at DESC, id", "created_at"
	case store.IDAsc:
		order, at = "id", ""
	}
	if l.position != nil {
		c.args["after_id"], c.args["after_at"] = l.position.ID, l.position.Time
		if at == "" {
			c.texts = append(c.texts, "id > @after_id")
		} else { // the first condition is for the index
			c.texts = append(c.texts, fmt.Sprintf("%[1]s <= @after_at AND (%[1]s < @after_at OR id > @after_id)", at))
			if q.Order == store.UpdatedDesc {
				c.texts, c.args["after_slot"] = append(c.texts, "updated_slot <= @after_slot"), slot(l.position.Time)
			}
		}
	}
	head := "NULL::bytea, NULL::bytea[]"
	if len(q.Metadata) > 0 {
		head = sinceSnapshot
	}
	if at == "" {
		at = "updated_at"
	}
	return fmt.Sprintf(`SELECT id, %s, header, tail_rows, %s FROM sessions s WHERE %s ORDER BY %s LIMIT @limit`, at, head, strings.Join(c.texts, " AND "), order), c.args
}

// sinceSnapshot is what the last version is folded from.
const sinceSnapshot = `(SELECT n.head FROM snapshots n WHERE n.sid = s.sid AND n.version = s.snap_version),
	ARRAY(SELECT c.body FROM snapshots n JOIN changes c ON c.log = n.sid AND c.seq > n.seq AND c.seq <= s.seq
		WHERE n.sid = s.sid AND n.version = s.snap_version ORDER BY c.seq)`

// conditions narrow a search.
type conditions struct {
	texts []string
	args  pgx.NamedArgs
}

// narrow adds what columns can tell. What a column cannot hold is NULL in it.
func (c *conditions) narrow(q store.Query) {
	c.either("kind", texts(q.Kinds))
	c.either("status", texts(q.Statuses))
	c.either("task_status", q.TaskStatuses)
	c.either("flow_status", q.WorkflowStatuses)
	if len(q.Kinds) == 0 {
		c.texts = append(c.texts, "kind <> '"+string(session.KindPolicy)+"'")
	}
	if len(q.Statuses) == 0 && !q.IncludeDeleted {
		c.texts = append(c.texts, "status <> '"+string(session.Deleted)+"'")
	}
	for name, value := range map[string]string{
		"agent_name": q.Agent, "parent_id": q.ParentID, "origin": string(q.Origin), "user_id": q.UserID, "name": q.Name,
	} {
		if value != "" {
			c.either(name, []string{value})
		}
	}
	if prefix := column(q.IDPrefix); prefix != nil {
		c.texts = append(c.texts, "id >= @prefix AND starts_with(id, @prefix)")
		c.args["prefix"] = *prefix
	}
	for condition, t := range map[string]time.Time{
		"created_at > @created_after": q.CreatedAfter, "created_at < @created_before": q.CreatedBefore,
		"updated_at > @updated_after": q.UpdatedAfter, "updated_at < @updated_before": q.UpdatedBefore,
	} {
		if !t.IsZero() {
			c.texts = append(c.texts, condition)
			_, name, _ := strings.Cut(condition, "@")
			c.args[name] = moment(t, strings.HasSuffix(name, "before"))
		}
	}
	slices.Sort(c.texts) // one text for one query, so that it is prepared once
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
		return // the header will tell
	}
	c.texts = append(c.texts, fmt.Sprintf("%[1]s = ANY (@%[1]s::text[])", name))
	c.args[name] = known
}

func texts[T ~string](values []T) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}
