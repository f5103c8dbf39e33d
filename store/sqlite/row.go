package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// row is what a session's row says for the checks of a write and for reading its
// log.
type row struct {
	log      int64
	agentID  string
	version  int64
	seq      int64 // last change of the version
	last     int64 // last change of all
	forkedAt int64
	live     int64
	open     bool
	due      any // when somebody should work on it; nil: never
	unfolded int64
	lease    admission.Lease
	filters  filters
	header   string
	head     head // the newest

	lastSum   store.Sum // of the last change
	headerSum int64
	sum       int64 // of the row
	updated   int64 // when the version was written; read with the mark alone
}

// filters are what listings filter by, of what may change.
type filters struct {
	status, name, origin string
	task, workflow       string // empty: none
}

func filtersOf(i session.Info) filters {
	l := filters{status: string(i.Status), name: i.Name, origin: string(i.Origin)}
	if i.Task != nil {
		l.task = i.Task.Status
	}
	if i.Workflow != nil {
		l.workflow = i.Workflow.Status
	}
	return l
}

// head is the folded state of a version.
type head struct {
	n       sql.NullInt64 // null: it is missing
	version int64
	seq     int64
	logSum  store.Sum // of its last change
	sum     int64
	size    int64
	data    []byte // nil if it was not read
}

const (
	// smallHead is the size up to which a head is read, and so checked, with
	// the row of its session.
	smallHead = 16 << 10

	selectRow = `SELECT s.log, s.agent_id, s.version, s.seq, s.last_seq, s.forked_at, s.tail_live, s.open, s.due, s.since_head,
	s.lease_token, s.lease_holder, s.lease_until, s.lease_open,
	s.status, s.name, s.origin, coalesce(s.task_status, ''), coalesce(s.workflow_status, ''), s.header, s.last_sum, s.header_sum, s.row_sum,
	h.n, coalesce(h.version, 0), coalesce(h.seq, 0), coalesce(h.log_sum, 0), coalesce(h.sum, 0), coalesce(length(h.data), 0),
	CASE WHEN length(h.data) <= ? THEN h.data END
FROM sessions s LEFT JOIN heads h ON h.n = (SELECT n FROM heads WHERE log = s.log ORDER BY base DESC LIMIT 1)
WHERE s.tenant = ? AND s.id = ?`
)

// find reads a session's row, and its newest head where that is no larger
// than maxHead.
func (c *conn) find(ctx context.Context, r store.Ref, maxHead int64) (w row, found bool, err error) {
	var lease leaseRow
	found, err = c.one(ctx, selectRow, []any{maxHead, r.Tenant, r.ID},
		&w.log, &w.agentID, &w.version, &w.seq, &w.last, &w.forkedAt, &w.live, &w.open, &w.due, &w.unfolded,
		&lease.Token, &lease.Holder, &lease.until, &lease.open,
		&w.filters.status, &w.filters.name, &w.filters.origin, &w.filters.task, &w.filters.workflow, &w.header, (*int64)(&w.lastSum), &w.headerSum, &w.sum,
		&w.head.n, &w.head.version, &w.head.seq, (*int64)(&w.head.logSum), &w.head.sum, &w.head.size, &w.head.data)
	w.lease = lease.lease()
	return w, found, err
}

// mustFind is find for a session that must be there, with a row that is whole.
func (c *conn) mustFind(ctx context.Context, r store.Ref) (row, error) {
	w, found, err := c.find(ctx, r, smallHead)
	switch {
	case err != nil:
	case !found:
		err = session.NotFound(r.ID)
	default:
		err = w.damage(r)
	}
	return w, err
}

// selectMark are the columns of a mark, and markColumns how many they are.
const (
	markColumns = 14
	selectMark  = `s.log, s.agent_id, s.version, s.seq, s.last_seq, s.forked_at, s.last_sum, s.header_sum, s.row_sum, s.updated_at,
	s.lease_token, s.lease_holder, s.lease_until, s.lease_open`
)

// findMark reads what says where a session's log ends, and its lease.
func (c *conn) findMark(ctx context.Context, r store.Ref) (w row, err error) {
	found := false
	// It is over before anybody can cancel it, and watching the context takes longer.
	err = c.each(context.WithoutCancel(ctx), "SELECT "+selectMark+" FROM sessions s WHERE s.tenant = ? AND s.id = ?", []any{r.Tenant, r.ID}, func(rows *rows) error {
		found = true
		return w.scanMark(r, rows)
	})
	if err == nil && !found {
		err = session.NotFound(r.ID)
	}
	return w, err
}

// scanMark reads the mark that a row begins with, and checks it.
func (w *row) scanMark(r store.Ref, rows *rows) error {
	var lease leaseRow
	if err := scan(rows.values[:markColumns], []any{
		&w.log, &w.agentID, &w.version, &w.seq, &w.last, &w.forkedAt, &w.lastSum, &w.headerSum, &w.sum, &w.updated,
		&lease.Token, &lease.Holder, &lease.until, &lease.open,
	}); err != nil {
		return err
	}
	w.lease = lease.lease()
	return w.damage(r)
}

// readHead reads the data of a head if it was not read yet.
func (c *conn) readHead(ctx context.Context, h *head) error {
	if h.data != nil || !h.n.Valid {
		return nil
	}
	_, err := c.one(ctx, "SELECT data FROM heads WHERE n = ?", []any{h.n.Int64}, &h.data)
	return err
}

// decode returns the session, without messages, that a head holds.
func (h head) decode(r store.Ref) (session.Session, error) {
	if !h.n.Valid {
		return session.Session{}, &session.CorruptError{ID: r.ID, Path: "head", Reason: "it is missing"}
	}
	s, err := session.DecodeHead(h.data, nil)
	switch {
	case err != nil:
	case store.RefOf(s) != r:
		err = &session.InvalidError{Field: "header.sessionId", Reason: "is that of another session"}
	case h.checksum() != h.sum:
		err = &session.InvalidError{Field: "head", Reason: "does not match its checksum"}
	}
	return s, store.Unreadable(r.ID, "head", err)
}

// readable returns why a head cannot be read. A head with the right checksum is
// not decoded. Data that was not read counts as readable, because it is read
// before the next head is written.
func (h head) readable(r store.Ref) error {
	if h.n.Valid && (h.data == nil || h.checksum() == h.sum) {
		return nil
	}
	_, err := h.decode(r)
	return err
}

func (w row) admit(next session.Session, fence int64, now time.Time) error {
	return admission.State{
		Damage: w.head.readable(store.RefOf(next)), AgentID: w.agentID, Version: w.version, LastSeq: w.last,
		Lease: w.lease, Live: w.leased(now),
	}.Admit(next, fence)
}

func encodeHeader(i session.Info) (string, error) {
	raw, err := store.EncodeHeader(i)
	return string(raw), err
}

func decodeHeader(r store.Ref, header string, sum int64) (session.Info, error) {
	raw := []byte(header)
	i, err := session.DecodeHeader(raw)
	switch {
	case err != nil:
	case i.ID != r.ID || i.Tenant != r.Tenant:
		err = &session.InvalidError{Field: "header.sessionId", Reason: "is that of another session"}
	case headerSum(r, raw) != sum:
		err = &session.InvalidError{Field: "header", Reason: "does not match its checksum"}
	}
	return i, store.Unreadable(r.ID, "header", err)
}

func micros(t time.Time) int64 { return t.UnixMicro() }

func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
