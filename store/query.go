package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Order is how a listing is sorted; the id breaks ties.
type Order string

// The orders of a listing.
const (
	UpdatedDesc Order = "updated_desc"
	CreatedDesc Order = "created_desc"
	IDAsc       Order = "id_asc"
)

const (
	defaultLimit = 50
	maxLimit     = 1000
)

// Query selects sessions. The zero value selects every session but deleted ones
// and policies, newest first. A query has no tenant.
type Query struct {
	Kinds            []session.Kind // empty: all but policy
	Statuses         []session.Status
	TaskStatuses     []string
	WorkflowStatuses []string
	Agent            string
	ParentID         string
	Origin           session.Origin
	UserID           string
	Name             string
	IDPrefix         string
	CreatedAfter     time.Time
	CreatedBefore    time.Time
	UpdatedAfter     time.Time
	UpdatedBefore    time.Time
	Pending          bool              // only sessions with calls that wait for a response
	Metadata         map[string]string // equal string values
	IncludeDeleted   bool
	Order            Order
	Limit            int    // 0: 50; at most 1000
	Cursor           string // Page.Next of the page before
}

// Page is one page of a listing. Corrupt names every session of the tenant
// that cannot be read, including those of a newer format, on each page and
// whatever the query is, because nobody can tell what they would match.
type Page struct {
	Items   session.Infos           `json:"items"`
	Next    string                  `json:"next,omitempty"` // cursor of the next page, "" at the end
	Corrupt []*session.CorruptError `json:"corrupt,omitempty"`
}

// Position is a session's place in the order of a listing.
type Position struct {
	Time time.Time `json:"t"`
	ID   string    `json:"id"`
}

// Check returns the query with its defaults filled in and the position in its
// cursor, nil for the first page, or an InvalidError.
func (q Query) Check() (Query, *Position, error) {
	if q.Order == "" {
		q.Order = UpdatedDesc
	}
	if !slices.Contains([]Order{UpdatedDesc, CreatedDesc, IDAsc}, q.Order) {
		return q, nil, &session.InvalidError{Field: "order", Reason: fmt.Sprintf("%q is not updated_desc, created_desc or id_asc", q.Order)}
	}
	switch {
	case q.Limit < 0:
		return q, nil, &session.InvalidError{Field: "limit", Reason: fmt.Sprintf("%d is negative", q.Limit)}
	case q.Limit > maxLimit:
		return q, nil, &session.InvalidError{Field: "limit", Reason: fmt.Sprintf("%d is more than %d", q.Limit, maxLimit)}
	case q.Limit == 0:
		q.Limit = defaultLimit
	}
	for _, kind := range q.Kinds {
		if !slices.Contains(session.Kinds(), kind) {
			return q, nil, &session.InvalidError{Field: "kind", Reason: fmt.Sprintf("%q is no kind of session", kind)}
		}
	}
	for _, status := range q.Statuses {
		if !slices.Contains(session.Statuses(), status) {
			return q, nil, &session.InvalidError{Field: "status", Reason: fmt.Sprintf("%q is no status of a session", status)}
		}
	}
	if q.Cursor == "" {
		return q, nil, nil
	}
	p, err := q.position()
	return q, p, err
}

// Match reports whether a header matches the query. It calls metadata only if the
// query asks for metadata.
func (q Query) Match(i session.Info, metadata func() (session.Values, error)) (bool, error) {
	kinds := len(q.Kinds) == 0 && i.Kind != session.KindPolicy || slices.Contains(q.Kinds, i.Kind)
	statuses := len(q.Statuses) == 0 && (q.IncludeDeleted || i.Status != session.Deleted) || slices.Contains(q.Statuses, i.Status)
	switch {
	case !kinds, !statuses,
		len(q.TaskStatuses) > 0 && (i.Task == nil || !slices.Contains(q.TaskStatuses, i.Task.Status)),
		len(q.WorkflowStatuses) > 0 && (i.Workflow == nil || !slices.Contains(q.WorkflowStatuses, i.Workflow.Status)),
		q.Pending && i.Pending == 0,
		q.Agent != "" && i.AgentName != q.Agent,
		q.ParentID != "" && i.ParentID != q.ParentID,
		q.Origin != "" && i.Origin != q.Origin,
		q.UserID != "" && i.UserID != q.UserID,
		q.Name != "" && i.Name != q.Name,
		!strings.HasPrefix(i.ID, q.IDPrefix),
		!q.CreatedAfter.IsZero() && !i.CreatedAt.After(q.CreatedAfter),
		!q.CreatedBefore.IsZero() && !i.CreatedAt.Before(q.CreatedBefore),
		!q.UpdatedAfter.IsZero() && !i.UpdatedAt.After(q.UpdatedAfter),
		!q.UpdatedBefore.IsZero() && !i.UpdatedAt.Before(q.UpdatedBefore):
		return false, nil
	}
	if len(q.Metadata) == 0 {
		return true, nil
	}
	values, err := metadata()
	return err == nil && values.Match(q.Metadata), err
}

// Compare orders two headers.
func (q Query) Compare(a, b session.Info) int {
	return q.compare(q.PositionOf(a), q.PositionOf(b))
}

// PositionOf returns a header's place in the query's order.
func (q Query) PositionOf(i session.Info) Position {
	switch q.Order {
	case IDAsc:
		return Position{ID: i.ID}
	case CreatedDesc:
		return Position{Time: i.CreatedAt, ID: i.ID}
	}
	return Position{Time: i.UpdatedAt, ID: i.ID}
}

func (q Query) compare(a, b Position) int {
	return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.ID, b.ID))
}

// Paginate sorts matching headers and returns the page after a position.
func (q Query) Paginate(infos []session.Info, after *Position) Page {
	slices.SortFunc(infos, q.Compare)
	if after != nil {
		infos = slices.DeleteFunc(infos, func(i session.Info) bool { return q.compare(q.PositionOf(i), *after) <= 0 })
	}
	page := Page{Items: session.Infos(infos)}
	if len(infos) > q.Limit {
		page.Items = session.Infos(infos[:q.Limit])
		page.Next = q.CursorAfter(infos[q.Limit-1])
	}
	return page
}

// cursor is the content of an opaque cursor. Sum binds it to its query and shows
// whether it was altered.
type cursor struct {
	Position Position `json:"p"`
	Sum      []byte   `json:"s"`
}

// CursorAfter is the cursor of the page that follows a header.
func (q Query) CursorAfter(i session.Info) string { return q.cursorAt(q.PositionOf(i)) }

func (q Query) cursorAt(p Position) string {
	raw, err := json.Marshal(cursor{Position: p, Sum: q.sum(p)})
	if err != nil {
		panic("store: a cursor cannot be encoded: " + err.Error()) // strings and times always can
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// position reads the cursor. It accepts only the exact text that cursorAt makes
// of the position, so every alteration is refused.
func (q Query) position() (*Position, error) {
	var c cursor
	raw, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || json.Unmarshal(raw, &c) != nil || q.cursorAt(c.Position) != q.Cursor {
		return nil, &session.InvalidError{Field: "cursor", Reason: "does not belong to this query: pass the cursor of the page before, with the same filters and order"}
	}
	return &c.Position, nil
}

// sum covers the position, the filters and the order, so that a cursor fits its
// own query only.
func (q Query) sum(p Position) []byte {
	q.Cursor, q.Limit = "", 0
	raw, err := json.Marshal(struct {
		Query    Query
		Position Position
	}{q, p})
	if err != nil {
		panic("store: a query cannot be encoded: " + err.Error()) // strings and times always can
	}
	h := sha256.Sum256(append([]byte("holdfast cursor 1\n"), raw...))
	return h[:12]
}

const defaultPage = 500

// PageLimit returns how many entries one read of a log returns at most: 500 for
// a limit of 0. A negative limit is InvalidError.
func PageLimit(limit int) (int, error) {
	switch {
	case limit < 0:
		return 0, &session.InvalidError{Field: "limit", Reason: fmt.Sprintf("%d is negative", limit)}
	case limit == 0:
		return defaultPage, nil
	}
	return limit, nil
}
