package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
)

// change is one change as it is kept.
type change struct {
	seq    int64
	kind   string
	data   []byte       // session.Record
	covers session.Span // of a tail_discarded: what it discards
	itemID string       // of an inbox_taken: what it takes
}

// encodeChanges is the kept form of records, and its size.
func encodeChanges(records []session.Record) (changes []change, size int64, err error) {
	changes = make([]change, len(records))
	for i, r := range records {
		raw, err := r.MarshalJSON()
		if err != nil {
			return nil, 0, err
		}
		changes[i] = change{seq: r.Seq, kind: r.Change.Kind(), data: raw}
		switch c := r.Change.(type) {
		case session.TailDiscarded:
			changes[i].covers = session.Span{From: c.From, To: c.To}
		case session.InboxTaken:
			changes[i].itemID = c.ItemID
		}
		size += int64(len(raw))
	}
	return changes, size, nil
}

// The kinds of change that mean something to a store.
var (
	sessionCreated     = session.SessionCreated{}.Kind()
	messageAdded       = session.MessageAdded{}.Kind()
	sessionRewound     = session.SessionRewound{}.Kind()
	tailDiscarded      = session.TailDiscarded{}.Kind()
	inboxTaken         = session.InboxTaken{}.Kind()
	taskRowChanged     = session.TaskRowChanged{}.Kind()
	workflowRowChanged = session.WorkflowRowChanged{}.Kind()
)

func hasKind(changes []change, kinds ...string) bool {
	return slices.ContainsFunc(changes, func(c change) bool { return slices.Contains(kinds, c.kind) })
}

// addChanges writes changes to the end of a session's log and does what they
// ask of its inbox, its keys and its tail. Those that an earlier version holds
// are never discarded.
func (c *conn) addChanges(ctx context.Context, w row, changes []change) error {
	for _, ch := range changes {
		if _, err := c.exec(ctx, "INSERT INTO changes (log, seq, version, kind, data) VALUES (?, ?, ?, ?, ?)",
			w.log, ch.seq, w.version+1, ch.kind, ch.data); err != nil {
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

// history are the stretches that make a session's log up to a number: those
// of its ancestors and its own.
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
	discarded    bool
	data         []byte
}

// changesIn reads a stretch, at most limit changes.
func (c *conn) changesIn(ctx context.Context, p stretch, limit int) ([]logRow, error) {
	var found []logRow
	err := c.each(ctx, "SELECT seq, version, discarded, data FROM changes WHERE log = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
		[]any{p.log, p.after, p.upTo, limit}, func(rows *sql.Rows) error {
			var r logRow
			err := rows.Scan(&r.seq, &r.version, &r.discarded, &r.data)
			found = append(found, r)
			return err
		})
	return found, err
}

// recordsIn reads a stretch whole.
func (c *conn) recordsIn(ctx context.Context, id string, p stretch) ([]session.Record, error) {
	if p.after >= p.upTo {
		return nil, nil
	}
	rows, err := c.changesIn(ctx, p, math.MaxInt)
	if err != nil {
		return nil, err
	}
	records := make([]session.Record, len(rows))
	for i, r := range rows {
		if records[i], err = decodeRecord(id, r.data); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func decodeRecord(id string, raw []byte) (session.Record, error) {
	var r session.Record
	err := r.UnmarshalJSON(raw)
	return r, unreadable(id, "log", err)
}

// fill gives a head its messages: those of its window or the whole transcript.
func (c *conn) fill(ctx context.Context, w row, s session.Session, whole bool) (session.Session, error) {
	if s.Info().MessageCount == 0 {
		return s, nil
	}
	parts, err := c.history(ctx, w, s.Info().Seq)
	if err != nil {
		return session.Session{}, err
	}
	var messages []session.Message
	for _, p := range parts {
		for _, wanted := range p.wanted(s.Spans(), s.Window(), whole) {
			if messages, err = c.messagesIn(ctx, s.ID(), wanted, messages); err != nil {
				return session.Session{}, err
			}
		}
	}
	full, err := s.Holding(messages)
	if err != nil {
		return session.Session{}, unreadable(s.ID(), "log", err)
	}
	return full, nil
}

// wanted are the pieces of a stretch that hold messages to be read: single
// ones the window keeps, then where the transcript and the window overlap.
func (p stretch) wanted(spans []session.Span, w session.Window, whole bool) []stretch {
	from := w.FromSeq
	if whole {
		from = 0
	}
	var pieces []stretch
	keep := slices.Clone(w.Keep)
	slices.Sort(keep)
	for _, seq := range slices.Compact(keep) {
		if seq < from && seq > p.after && seq <= p.upTo && session.Holds(spans, seq) {
			pieces = append(pieces, stretch{log: p.log, after: seq - 1, upTo: seq})
		}
	}
	for _, span := range spans {
		piece := stretch{log: p.log, after: max(p.after, span.From-1, from-1), upTo: p.upTo}
		if span.To != 0 {
			piece.upTo = min(piece.upTo, span.To)
		}
		if piece.after < piece.upTo {
			pieces = append(pieces, piece)
		}
	}
	return pieces
}

// messagesIn adds the messages of a stretch to a list.
func (c *conn) messagesIn(ctx context.Context, id string, p stretch, messages []session.Message) ([]session.Message, error) {
	err := c.each(ctx, "SELECT data FROM changes WHERE log = ? AND seq > ? AND seq <= ? AND kind = ? ORDER BY seq",
		[]any{p.log, p.after, p.upTo, messageAdded}, func(rows *sql.Rows) error {
			var raw sql.RawBytes
			if err := rows.Scan(&raw); err != nil {
				return err
			}
			r, err := decodeRecord(id, raw)
			if err != nil {
				return err
			}
			added, ok := r.Change.(session.MessageAdded)
			if !ok {
				return &session.CorruptError{ID: id, Path: "log", Reason: "a message is not where it belongs"}
			}
			messages = append(messages, added.Message)
			return nil
		})
	return messages, err
}
