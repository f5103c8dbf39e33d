package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// List finds sessions of one tenant. It reads the headers of the page, and those
// of unreadable sessions through an index of them. Metadata is read only if the
// query asks for it, and only of sessions with the right tags.
func (s *Store) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return store.Page{}, err
	}
	q, after, err := q.Check()
	if err != nil {
		return store.Page{}, err
	}
	l := listing{tenant: tenant, query: q, after: after}
	if err := s.read(ctx, l.read); err != nil {
		return store.Page{}, err
	}
	page := store.Page{Items: l.found, Corrupt: l.corrupt}
	if len(l.found) > q.Limit {
		page.Items = l.found[:q.Limit]
		page.Next = q.CursorAfter(page.Items[q.Limit-1])
	}
	return page, nil
}

// listing is one List call.
type listing struct {
	tenant  string
	query   store.Query
	after   *store.Position // where to read on
	index   indexChoice     // the zero value: read in the listing's order
	tag     *[2]int64       // read what has one of these tags or none; nil: use the index
	found   session.Infos
	corrupt []*session.CorruptError
}

// read fills the page with one session more than it shows, if there is one.
func (l *listing) read(ctx context.Context, c *conn) error {
	if err := l.readUnreadable(ctx, c); err != nil {
		return err
	}
	if err := l.choose(ctx, c); err != nil {
		return err
	}
	for len(l.found) <= l.query.Limit {
		rows, err := l.next(ctx, c, l.query.Limit+1)
		if err != nil {
			return err
		}
		l.found = slices.Grow(l.found, len(rows))
		for _, r := range rows {
			if err := l.add(ctx, c, r); err != nil {
				return err
			}
		}
		if len(rows) <= l.query.Limit {
			return nil
		}
		l.after = &rows[len(rows)-1].position
	}
	return nil
}

// readUnreadable reports the sessions whose header does not have our form. The
// condition must be the same text as that of the index.
func (l *listing) readUnreadable(ctx context.Context, c *conn) error {
	return c.each(ctx, `SELECT id, header, header_sum FROM sessions INDEXED BY sessions_unreadable WHERE tenant = ?
AND header NOT GLOB '{"format":"holdfast.session","formatVersion":1,"header":{*}}' ORDER BY id`,
		[]any{l.tenant}, func(rows *rows) error {
			var id, header string
			var sum int64
			if err := rows.Scan(&id, &header, &sum); err != nil {
				return err
			}
			if _, err := decodeHeader(store.Ref{Tenant: l.tenant, ID: id}, header, sum); err != nil {
				l.report(id, err)
			}
			return nil
		})
}

func (l *listing) report(id string, err error) {
	for _, known := range l.corrupt {
		if known.ID == id {
			return
		}
	}
	var bad *session.CorruptError
	if !errors.As(err, &bad) {
		bad = &session.CorruptError{ID: id, Reason: err.Error()}
	}
	l.corrupt = append(l.corrupt, bad)
}

type listed struct {
	position store.Position
	header   string
	sum      int64 // of the header
}

// next reads the rows that fit, from where the last page ended.
func (l *listing) next(ctx context.Context, c *conn, limit int) ([]listed, error) {
	f := l.filter()
	order := map[store.Order]string{
		store.UpdatedDesc: "updated_at DESC, id", store.CreatedDesc: "created_at DESC, id", store.IDAsc: "id",
	}[l.query.Order]
	column := map[store.Order]string{store.UpdatedDesc: "updated_at", store.CreatedDesc: "created_at", store.IDAsc: "0"}[l.query.Order]
	from := "sessions"
	switch {
	case l.tag != nil:
		from += " NOT INDEXED" // by the number of the log
	case l.index.name != "":
		from += " INDEXED BY " + l.index.name
	}
	text := fmt.Sprintf("SELECT id, %s, header, header_sum FROM %s WHERE %s ORDER BY %s LIMIT +?", column, from, strings.Join(f.terms, " AND "), order)
	var found []listed
	err := c.each(ctx, text, append(f.args, limit), func(rows *rows) error {
		var r listed
		var at int64
		err := rows.Scan(&r.position.ID, &at, &r.header, &r.sum)
		if l.query.Order != store.IDAsc {
			r.position.Time = instant(at)
		}
		found = append(found, r)
		return err
	})
	return found, err
}

// add puts a session on the page if it matches, or among the corrupt.
func (l *listing) add(ctx context.Context, c *conn, r listed) error {
	if len(l.found) > l.query.Limit {
		return nil
	}
	at := store.Ref{Tenant: l.tenant, ID: r.position.ID}
	info, err := decodeHeader(at, r.header, r.sum)
	if err != nil {
		l.report(at.ID, err)
		return nil
	}
	var failed error // an error of the database rather than of the session
	fits, err := l.query.Match(info, func() (session.Values, error) {
		w, err := c.mustFind(ctx, at)
		if err == nil {
			var s session.Session
			if s, err = c.folded(ctx, at, w, w.version); err == nil {
				return s.Metadata(), nil
			}
		}
		if !errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrNewerFormat) {
			failed = err
		}
		return nil, err
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		l.report(at.ID, err)
	case fits:
		l.found = append(l.found, info)
	}
	return nil
}
