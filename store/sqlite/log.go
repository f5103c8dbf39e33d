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
	sum    store.Sum    // set when the change before it is known
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
	messageAdded  = session.MessageAdded{}.Kind()
	tailDiscarded = session.TailDiscarded{}.Kind()
	inboxTaken    = session.InboxTaken{}.Kind()
)

func hasKind(changes []change, kinds ...string) bool {
	return slices.ContainsFunc(changes, func(c change) bool { return slices.Contains(kinds, c.kind) })
}

// addChanges writes changes, which have their sums, to the end of a session's log and applies them to its
// inbox, its keys and its tail. It never discards changes that a version holds.
// The last change carries the commit, if there is one.
func (c *conn) addChanges(ctx context.Context, w row, changes []change, commit *store.CommitInfo) error {
	for i, ch := range changes {
		var err error
		if commit != nil && i == len(changes)-1 {
			text, packed := splitID(commit.ID)
			_, err = c.exec(ctx, `INSERT INTO changes (log, seq, version, kind, at, data, sum, first_seq, commit_id, commit_uuid, action, actor, sealed_at, commit_sum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, w.log, ch.seq, w.version+1, ch.kind, micros(ch.at), ch.data, int64(ch.sum),
				commit.FirstSeq, text, packed, commit.Action, commit.Actor, micros(commit.At), commitSum(ch.sum, *commit))
		} else {
			_, err = c.exec(ctx, "INSERT INTO changes (log, seq, version, kind, at, data, sum) VALUES (?, ?, ?, ?, ?, ?, ?)",
				w.log, ch.seq, w.version+1, ch.kind, micros(ch.at), ch.data, int64(ch.sum))
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
				"UPDATE changes SET discarded = ~sum WHERE log = ? AND seq BETWEEN ? AND ?",
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
	err := c.each(ctx, "SELECT ancestor, after_seq, upto_seq FROM lineage WHERE log = ? ORDER BY after_seq", []any{w.log}, func(rows *rows) error {
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
	mark         int64 // 0, or the complement of the sum: the change is discarded
	discarded    bool
	data         []byte // nil where it was not read
	sum          store.Sum
	scratch      *[]byte // for the JSON of the record, one row after the other; nil: allocate it
}

const (
	// columns are those of a logRow, as scan expects them.
	columns = "seq, version, kind, at, discarded, data, sum"

	// messageColumns leave out the data of changes that are no messages.
	messageColumns = "seq, version, kind, at, discarded, CASE WHEN kind = 'message_added' THEN data END, sum"
)

// scan reads the columns of a logRow and those before them.
func (r *logRow) scan(rows *rows, before ...any) error {
	return r.scanInto(rows, append(before, r.into()...))
}

// into is where the columns of a logRow go.
func (r *logRow) into() []any {
	return []any{&r.seq, &r.version, &r.kind, &r.at, &r.mark, (*sql.RawBytes)(&r.data), (*int64)(&r.sum)}
}

func (r *logRow) scanInto(rows *rows, into []any) error {
	err := rows.Scan(into...)
	r.discarded = r.mark != 0
	return err
}

func (r logRow) logged() store.Logged {
	return store.Logged{Seq: r.seq, Version: r.version, Kind: r.kind, Body: r.data, Bare: true, At: r.at.Int64}
}

// check returns a CorruptError if the change is not the one that was written.
func (r logRow) check(id string) error {
	if r.discarded && r.mark != ^int64(r.sum) {
		return &session.CorruptError{ID: id, Path: "log", Record: r.seq, Reason: "whether it is discarded was altered"}
	}
	return r.sum.Check(id, r.logged())
}

// record decodes the change, after a check. It holds no memory of the row. Data
// of a newer program is reported as such.
func (r logRow) record(id string) (session.Record, error) {
	raw := r.data
	if r.at.Valid { // else the data is a whole record
		raw = r.whole()
	}
	if err := r.check(id); err != nil {
		return session.Record{}, err
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
	var raw []byte
	if r.scratch != nil {
		raw = (*r.scratch)[:0]
	}
	raw = slices.Grow(raw, len(r.data)+192)
	if r.scratch != nil {
		*r.scratch = raw
	}
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

// reading says which changes of a log to read.
type reading struct {
	after, upTo int64
	limit       int        // 0: none
	messages    bool       // only the messages have data
	before      *store.Sum // of change after; nil: it is read as well
}

// follow reads the changes of a session's log in order, and checks that they
// are all there, that each follows the one before it, and that the log ends
// where the row says. Parts is the session's history.
func (c *conn) follow(ctx context.Context, r store.Ref, w row, parts []stretch, what reading, visit func(logRow) error) error {
	if what.after >= what.upTo {
		return nil
	}
	chain := store.Chain{ID: r.ID, Seq: what.after}
	from := what.after // changes after it are read
	switch {
	case what.before != nil:
		chain.Sum = *what.before
	case what.after > 0:
		from, chain.Seq = what.after-1, what.after-1
	}
	most := math.MaxInt
	if what.limit > 0 {
		most = what.limit
	}
	shown := columns
	if what.messages {
		shown = messageColumns
	}
	n := 0
	l := logRow{scratch: new([]byte)}
	into := l.into()
	for _, p := range parts {
		p.after, p.upTo = max(p.after, from), min(p.upTo, what.upTo)
		if p.after >= p.upTo || n >= most {
			continue
		}
		rest := most - n
		if p.log == w.log && p.upTo == w.last {
			p.upTo = math.MaxInt64 // what is written behind the end is found, too
		}
		if chain.Seq < what.after {
			rest = max(rest, rest+1) // without overflow: the change before is one more
		}
		err := c.each(ctx, "SELECT "+shown+" FROM changes WHERE log = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT +?",
			[]any{p.log, p.after, p.upTo, rest}, func(rows *rows) error {
				if err := l.scanInto(rows, into); err != nil {
					return scanError(r.ID, "log", err)
				}
				if l.seq == what.after { // only its sum is needed
					chain.Seq, chain.Sum = l.seq, l.sum
					return nil
				}
				if err := chain.Follow(l.logged(), l.sum); err != nil {
					return err
				}
				n++
				return visit(l)
			})
		if err != nil {
			return err
		}
	}
	switch {
	case n >= most && chain.Seq < what.upTo:
		return nil
	case what.upTo == w.last:
		return chain.End(w.last, w.lastSum)
	}
	return chain.End(what.upTo, chain.Sum)
}

// ends checks that a session's log ends where its row says, for readers that do
// not read the end.
func (c *conn) ends(ctx context.Context, r store.Ref, w row) error {
	chain := store.Chain{ID: r.ID, Seq: w.forkedAt}
	if _, err := c.one(ctx, "SELECT seq, sum FROM changes WHERE log = ? ORDER BY seq DESC LIMIT 1", []any{w.log}, &chain.Seq, (*int64)(&chain.Sum)); err != nil {
		return err
	}
	return chain.End(w.last, w.lastSum)
}

// records reads changes whole.
func (c *conn) records(ctx context.Context, r store.Ref, w row, what reading) ([]session.Record, error) {
	parts, err := c.history(ctx, w, w.last)
	if err != nil {
		return nil, err
	}
	var records []session.Record
	err = c.follow(ctx, r, w, parts, what, func(l logRow) error {
		record, err := l.record(r.ID)
		records = append(records, record)
		return err
	})
	return records, err
}

// maxExpected bounds for how many messages there is room before they are read.
const maxExpected = 4096

// fill adds the messages up to a change to a session that has the later ones: of
// its window, or of the whole transcript.
func (c *conn) fill(ctx context.Context, w row, s session.Session, after int64, whole bool) (session.Session, error) {
	if s.Info().MessageCount == 0 {
		return s, nil
	}
	parts, err := c.history(ctx, w, w.last)
	if err != nil {
		return session.Session{}, err
	}
	var messages []session.Message
	for _, span := range store.ShownSpans(session.Spans(s), s.Window(), whole) {
		what := reading{after: span.From - 1, upTo: after, messages: true}
		if span.To != 0 {
			what.upTo = min(after, span.To)
		}
		if what.after >= what.upTo {
			continue
		}
		messages = slices.Grow(messages, min(int(what.upTo-what.after), s.Info().MessageCount, maxExpected))
		err := c.follow(ctx, store.RefOf(s), w, parts, what, func(l logRow) error {
			if l.kind != messageAdded {
				return nil
			}
			record, err := l.record(s.ID())
			if err != nil {
				return err
			}
			if added, ok := record.Change.(session.MessageAdded); ok {
				messages = append(messages, added.Message)
			}
			return nil
		})
		if err != nil {
			return session.Session{}, err
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
