package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// change is one change as it is stored.
type change struct {
	seq    int64
	kind   string
	at     time.Time
	data   []byte       // as a row has it
	covers session.Span // of a tail_discarded: what it discards
	itemID string       // of an inbox_taken: what it takes
}

// encodeChanges encodes records for their rows, and returns the size of their
// data.
func encodeChanges(records []session.Record) (changes []change, size int64, err error) {
	changes = make([]change, len(records))
	for i, r := range records {
		raw, err := r.MarshalJSON()
		if err != nil {
			return nil, 0, err
		}
		_, data, _ := bytes.Cut(raw[:len(raw)-1], []byte(`"data":`)) // what comes before are columns
		data = short(r, data)
		changes[i] = change{seq: r.Seq, kind: r.Change.Kind(), at: r.At, data: data}
		switch c := r.Change.(type) {
		case session.TailDiscarded:
			changes[i].covers = session.Span{From: c.From, To: c.To}
		case session.InboxTaken:
			changes[i].itemID = c.ItemID
		}
		size += int64(len(data))
	}
	return changes, size, nil
}

// short returns the data of a change without what its row has in columns: the
// number of a message, and its time if that is the change's. What is left of
// the message begins with its id. All other data stays as it is.
func short(r session.Record, data []byte) []byte {
	added, ok := r.Change.(session.MessageAdded)
	if !ok || !added.Message.CreatedAt.Equal(r.At) {
		return data
	}
	// Only the id comes before the stamp, and its quotes are escaped, so the first
	// match is the stamp.
	message := data[len(messageBegin) : len(data)-1]
	begin, rest, found := bytes.Cut(message, appendStamp(nil, r.Seq, r.At))
	if !found {
		return data
	}
	return append(begin, rest...)
}

const (
	messageBegin = `{"message":` // of data that is whole
	shortBegin   = `{"id":`      // of data that is a message without its stamp
)

// appendStamp adds the number and the time of a message in their JSON form.
func appendStamp(b []byte, seq int64, at time.Time) []byte {
	b = append(b, `"seq":`...)
	b = strconv.AppendInt(b, seq, 10)
	b = append(b, `,"createdAt":"`...)
	b = at.AppendFormat(b, time.RFC3339Nano)
	return append(b, `",`...)
}

// The kinds of change that this store acts on.
var (
	sessionImported    = session.SessionImported{}.Kind()
	statusChanged      = session.StatusChanged{}.Kind()
	nameChanged        = session.NameChanged{}.Kind()
	messageAdded       = session.MessageAdded{}.Kind()
	tailDiscarded      = session.TailDiscarded{}.Kind()
	inboxTaken         = session.InboxTaken{}.Kind()
	taskRowChanged     = session.TaskRowChanged{}.Kind()
	workflowRowChanged = session.WorkflowRowChanged{}.Kind()
)

func hasKind(changes []change, kinds ...string) bool {
	return slices.ContainsFunc(changes, func(c change) bool { return slices.Contains(kinds, c.kind) })
}

// addChanges writes changes to the end of a session's log and applies them to its
// inbox, its keys and its tail. It never discards changes that a version holds.
// The last change carries the commit, if there is one.
func (c *conn) addChanges(ctx context.Context, w row, changes []change, commit *store.CommitInfo) error {
	for i, ch := range changes {
		var err error
		if commit != nil && i == len(changes)-1 {
			text, packed := splitID(commit.ID)
			_, err = c.exec(ctx, `INSERT INTO changes (log, seq, version, kind, at, data, first_seq, commit_id, commit_uuid, action, actor, sealed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, w.log, ch.seq, w.version+1, ch.kind, micros(ch.at), ch.data,
				commit.FirstSeq, text, packed, commit.Action, commit.Actor, micros(commit.At))
		} else {
			_, err = c.exec(ctx, "INSERT INTO changes (log, seq, version, kind, at, data) VALUES (?, ?, ?, ?, ?, ?)",
				w.log, ch.seq, w.version+1, ch.kind, micros(ch.at), ch.data)
		}
		if err != nil {
			return err
		}
		switch ch.kind {
		case inboxTaken:
			if err := c.takeItem(ctx, w.log, ch); err != nil {
				return err
			}
		case tailDiscarded:
			from, to := max(ch.covers.From, w.seq+1), ch.covers.To
			for _, statement := range []string{
				"UPDATE changes SET discarded = 1 WHERE log = ? AND seq BETWEEN ? AND ?",
				"UPDATE inbox SET taken = 0 WHERE log = ? AND taken BETWEEN ? AND ?",
				"DELETE FROM message_vectors WHERE log = ? AND seq BETWEEN ? AND ?",
			} {
				if _, err := c.exec(ctx, statement, w.log, from, to); err != nil {
					return err
				}
			}
			if err := c.forgetKeys(ctx, w, ch.covers); err != nil {
				return err
			}
		}
	}
	c.onWrite("after changes")
	return nil
}

// stretch is a part of a log: the changes after one number and up to another.
type stretch struct{ log, after, upTo int64 }

// history returns the stretches of a session's log up to a number: those of its
// ancestors and its own.
func (c *conn) history(ctx context.Context, w row, upTo int64) ([]stretch, error) {
	own := stretch{log: w.log, after: w.forkedAt, upTo: upTo}
	if w.forkedAt == 0 {
		return []stretch{own}, nil
	}
	var parts []stretch
	err := c.each(ctx, "SELECT ancestor, after_seq, upto_seq FROM lineage WHERE log = ? ORDER BY after_seq", []any{w.log}, func(rows *sql.Rows) error {
		var p stretch
		err := rows.Scan(&p.log, &p.after, &p.upTo)
		parts = append(parts, p)
		return err
	})
	return append(parts, own), err
}

// logRow is a change as it is read.
type logRow struct {
	seq, version int64
	kind         string
	at           sql.NullInt64
	discarded    bool
	data         []byte
}

// columns are those of a logRow, as scan expects them.
const columns = "seq, version, kind, at, discarded, data"

func (r *logRow) scan(rows *sql.Rows) error {
	return rows.Scan(&r.seq, &r.version, &r.kind, &r.at, &r.discarded, (*sql.RawBytes)(&r.data))
}

// record decodes the change. It holds no memory of the row.
func (r logRow) record(id string) (session.Record, error) {
	raw := r.data
	if r.at.Valid { // else the data is a whole record
		raw = r.whole()
	}
	var record session.Record
	err := record.UnmarshalJSON(raw)
	if err == nil && record.Seq != r.seq {
		err = &session.InvalidError{Field: "record.seq", Reason: "is that of another change"}
	}
	return record, store.Unreadable(id, "log", err)
}

// whole returns the JSON of the record, made of the columns and the data.
func (r logRow) whole() []byte {
	at := instant(r.at.Int64)
	raw := make([]byte, 0, len(r.data)+192)
	raw = append(raw, `{"seq":`...)
	raw = strconv.AppendInt(raw, r.seq, 10)
	raw = append(raw, `,"at":"`...)
	raw = at.AppendFormat(raw, time.RFC3339Nano)
	raw = append(raw, `","kind":`...)
	raw = strconv.AppendQuote(raw, r.kind)
	raw = append(raw, `,"data":`...)
	if r.kind != messageAdded || !bytes.HasPrefix(r.data, []byte(shortBegin)) {
		raw = append(raw, r.data...)
		return append(raw, '}')
	}
	raw = append(raw, messageBegin+"{"...)
	raw = appendStamp(raw, r.seq, at)
	raw = append(raw, r.data[1:]...)
	return append(raw, "}}"...)
}

// entriesIn reads a stretch, at most limit changes.
func (c *conn) entriesIn(ctx context.Context, id string, p stretch, limit int) ([]session.LogEntry, error) {
	var entries []session.LogEntry
	err := c.each(ctx, "SELECT "+columns+" FROM changes WHERE log = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
		[]any{p.log, p.after, p.upTo, limit}, func(rows *sql.Rows) error {
			var r logRow
			if err := r.scan(rows); err != nil {
				return err
			}
			record, err := r.record(id)
			entries = append(entries, session.LogEntry{Record: record, Version: r.version, Discarded: r.discarded})
			return err
		})
	return entries, err
}

// recordsIn reads a stretch whole.
func (c *conn) recordsIn(ctx context.Context, id string, p stretch) ([]session.Record, error) {
	if p.after >= p.upTo {
		return nil, nil
	}
	entries, err := c.entriesIn(ctx, id, p, math.MaxInt)
	if err != nil {
		return nil, err
	}
	records := make([]session.Record, len(entries))
	for i, e := range entries {
		records[i] = e.Record
	}
	return records, nil
}

// fill adds the messages up to a change to a session that has the later ones: of
// its window, or of the whole transcript.
func (c *conn) fill(ctx context.Context, w row, s session.Session, after int64, whole bool) (session.Session, error) {
	if s.Info().MessageCount == 0 {
		return s, nil
	}
	parts, err := c.history(ctx, w, after)
	if err != nil {
		return session.Session{}, err
	}
	var messages []session.Message
	shown := store.ShownSpans(session.Spans(s), s.Window(), whole)
	for _, p := range parts {
		for _, span := range shown {
			if messages, err = c.messagesIn(ctx, s.ID(), p.within(span), messages); err != nil {
				return session.Session{}, err
			}
		}
	}
	for _, m := range s.All() {
		if m.Seq > after && (whole || s.Shown(m.Seq)) {
			messages = append(messages, m)
		}
	}
	full, err := session.AttachMessages(s, messages)
	if err != nil {
		return session.Session{}, store.Unreadable(s.ID(), "log", err)
	}
	return full, nil
}

// within is the part of a stretch that lies in a span.
func (p stretch) within(span session.Span) stretch {
	p.after = max(p.after, span.From-1)
	if span.To != 0 {
		p.upTo = min(p.upTo, span.To)
	}
	return p
}

// messagesIn adds the messages of a stretch to a list.
func (c *conn) messagesIn(ctx context.Context, id string, p stretch, messages []session.Message) ([]session.Message, error) {
	if p.after >= p.upTo {
		return messages, nil
	}
	err := c.each(ctx, "SELECT "+columns+" FROM changes WHERE log = ? AND seq > ? AND seq <= ? AND kind = ? ORDER BY seq",
		[]any{p.log, p.after, p.upTo, messageAdded}, func(rows *sql.Rows) error {
			var r logRow
			if err := r.scan(rows); err != nil {
				return err
			}
			record, err := r.record(id)
			if err != nil {
				return err
			}
			added, ok := record.Change.(session.MessageAdded)
			if !ok {
				return &session.CorruptError{ID: id, Path: "log", Reason: "a message is not where it belongs"}
			}
			messages = append(messages, added.Message)
			return nil
		})
	return messages, err
}
