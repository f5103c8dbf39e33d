package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func (e *examination) compareSnapshots(context.Context, pgx.Tx) error {
	for _, version := range slices.Sorted(maps.Keys(e.snapshots)) {
		want := e.snapshots[version]
		kept, ok := e.kept[version]
		if !ok {
			e.wrong("there is no head of version %d", version)
			continue
		}
		s, last, err := decodeHead(e.ref.ID, kept.head)
		if errors.Is(err, session.ErrNewerFormat) {
			return err
		}
		var again []byte
		if err == nil {
			again, err = session.EncodeHead(s) // another program may have written the same in other bytes
			again = withLogSum(again, last)
		}
		if err != nil || !bytes.Equal(again, want.head) || kept.seq != want.seq {
			e.wrong("the head of version %d is not what the log makes", version)
		} else {
			e.snapshots[version] = kept
		}
	}
	for _, version := range slices.Sorted(maps.Keys(e.kept)) {
		if _, ok := e.snapshots[version]; !ok {
			e.wrong("a head of version %d belongs to no version", version)
		}
	}
	return nil
}

// compareHeader compares the header with the last version, with the task and
// workflow rows of the open tail.
func (e *examination) compareHeader(ctx context.Context, tx pgx.Tx) error {
	var format int
	var whole bool
	var row headerRow
	err := tx.QueryRow(ctx, `SELECT s.format, s.header_sum = sha256(s.header), `+headerColumns+` FROM sessions s WHERE s.sid = $1`, e.sid).
		Scan(append([]any{&format, &whole}, row.columns()...)...)
	if err != nil {
		return found(e.ref, err)
	}
	if format > session.FormatVersion {
		return &session.NewerFormatError{What: "format version", Have: fmt.Sprint(format), Know: fmt.Sprint(session.FormatVersion)}
	}
	info, err := row.info()
	if errors.Is(err, session.ErrNewerFormat) {
		return err
	}
	want, encodeErr := store.EncodeHeader(e.info())
	have, err2 := store.EncodeHeader(info)
	if err != nil || !whole || !bytes.Equal(have, want) {
		e.wrong("the header is not what the log makes")
	}
	return errors.Join(encodeErr, err2)
}

// info is the header as Info returns it.
func (e *examination) info() session.Info {
	info, tail := e.last.Info(), e.whole.Info()
	info.Task, info.Workflow = tail.Task, tail.Workflow
	return info
}

// rowPart is some columns of a session's row, or of its place in listings,
// that follow from its log, and what is wrong when they do not.
type rowPart struct {
	columns []string
	problem string
}

var (
	rowParts = []rowPart{
		{[]string{"agent_id", "version", "seq", "last_seq", "last_sum"}, "the row does not say where the log ends"},
		{[]string{"live", "running", "at_work", "due"}, "the row does not say what the open tail is"},
		{[]string{"shown_from", "shown_to"}, "the row does not say where the window's messages are"},
		{[]string{"snap_version", "snapshot_bytes", "unfolded"}, "the row does not say which head is the newest"},
		{[]string{"format", "pending", "messages", "updated_at", "row_sum"}, "the row's copies of the header are not what the header says"},
	}
	listingPart = rowPart{[]string{
		"tenant", "kind", "status", "origin", "name", "user_id", "parent_id", "agent_name", "task_status", "flow_status",
		"created_at", "updated_slot", "expires_at",
	}, "the listing's copies of the header are not what the header says"}
)

// same is the SQL condition that a part is as it must be. The count of messages
// may be NULL: then the header has it. An earlier program left open what is due.
func (p rowPart) same() string {
	var equal []string
	for _, column := range p.columns {
		switch column {
		case "messages":
			column = "coalesce(messages, @messages) = @messages"
		case "due":
			column = "(due = '-infinity' OR due IS NOT DISTINCT FROM @due::timestamptz)"
		default:
			column += " IS NOT DISTINCT FROM @" + column
		}
		equal = append(equal, column)
	}
	return strings.Join(equal, " AND ")
}

// set assigns the columns of a part.
func (p rowPart) set() string {
	var set []string
	for _, column := range p.columns {
		set = append(set, column+" = @"+column)
	}
	return strings.Join(set, ", ")
}

// rowArgs returns the values that those columns must have.
func (e *examination) rowArgs() (pgx.NamedArgs, error) {
	info := e.info()
	args := versionArgs(e.last, info)
	addWindow(args, e.last)
	if err := addHeader(args, e.last.Info()); err != nil {
		return nil, err
	}
	addStatuses(args, info)
	newest := e.snapshots[slices.Max(slices.Collect(maps.Keys(e.snapshots)))]
	live, unfolded := int64(0), int64(0)
	for _, c := range e.changes {
		if c.Seq > newest.seq {
			unfolded += int64(len(c.Body))
		}
		if _, discard := c.record.Change.(session.TailDiscarded); c.Seq > e.last.Seq() && !c.discarded && !discard {
			live++
		}
	}
	maps.Copy(args, pgx.NamedArgs{
		"sid": e.sid, "tenant": e.ref.Tenant, "agent_id": e.last.AgentID(), "version": e.last.Version(), "last_seq": e.whole.Seq(), "last_sum": int64(e.sums[e.whole.Seq()]),
		"live": live, "running": e.whole.Running(), "at_work": e.whole.Running() || live > 0, "due": dueOf(e.whole),
		"snap_version": newest.version, "snapshot_bytes": int64(len(newest.head)), "unfolded": unfolded,
		"format": session.FormatVersion, "kind": column(string(info.Kind)), "user_id": column(info.UserID),
		"parent_id": column(info.ParentID), "agent_name": column(info.AgentName), "created_at": info.CreatedAt,
	})
	return args, nil
}

func (e *examination) compareRow(ctx context.Context, tx pgx.Tx) error {
	args, err := e.rowArgs()
	if err != nil {
		return err
	}
	tests, same, into := make([]string, len(rowParts)), make([]bool, len(rowParts)), make([]any, len(rowParts))
	for i, part := range rowParts {
		tests[i], into[i] = part.same(), &same[i]
	}
	if err := tx.QueryRow(ctx, `SELECT `+strings.Join(tests, ", ")+` FROM sessions WHERE sid = @sid`, args).Scan(into...); err != nil {
		return err
	}
	for i, part := range rowParts {
		if !same[i] {
			e.wrong("%s", part.problem)
		}
	}
	var listed bool
	err = tx.QueryRow(ctx, `SELECT `+listingPart.same()+` FROM listing WHERE sid = @sid`, args).Scan(&listed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		e.wrong("it is in no listing")
		return nil
	case err == nil && !listed:
		e.wrong("%s", listingPart.problem)
	}
	return err
}

// discards are what the session's own log discards, in order.
func (e *examination) discards() []session.Span {
	var spans []session.Span
	for _, c := range e.changes {
		if d, ok := c.record.Change.(session.TailDiscarded); ok {
			spans = append(spans, session.Span(d))
		}
	}
	slices.SortFunc(spans, bySpan)
	return spans
}

func bySpan(a, b session.Span) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

func (e *examination) compareDiscards(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT from_seq, to_seq FROM discards WHERE log = $1 ORDER BY from_seq, to_seq`, e.sid)
	if err != nil {
		return err
	}
	have, err := pgx.CollectRows(rows, pgx.RowToStructByPos[session.Span])
	if !slices.Equal(have, e.discards()) {
		e.wrong("the discarded changes are not those of the log")
	}
	return err
}

// takings are the changes in force that took items of the inbox.
func (e *examination) takings() map[string]int64 {
	taken := map[string]int64{}
	for _, c := range e.changes {
		if t, ok := c.record.Change.(session.InboxTaken); ok && !c.discarded {
			taken[t.ItemID] = c.Seq
		}
	}
	return taken
}

// compareInbox checks items, and that exactly those are taken that the log takes.
// The log cannot tell which items there are.
func (e *examination) compareInbox(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT i.item_id, i.body, i.taken, coalesce(t.seq, 0) FROM inbox i LEFT JOIN takings t ON t.sid = i.sid AND t.item_id = i.item_id
		WHERE i.sid = $1 ORDER BY i.item_id`, e.sid)
	if err != nil {
		return err
	}
	takings := e.takings()
	var a arrived
	var taken bool
	var by int64
	_, err = pgx.ForEachRow(rows, []any{&a.ItemID, &a.Body, &taken, &by}, func() error {
		if _, err := a.item(); err != nil {
			e.others = append(e.others, fmt.Sprintf("its inbox: %v", err))
		}
		item := a.ItemID
		if takings[item] != by || taken != (by > 0) {
			e.wrong("whether item %q of the inbox is taken is not what the log says", item)
		}
		return nil
	})
	return err
}
