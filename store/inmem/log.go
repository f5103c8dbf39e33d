package inmem

import (
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// change is one change as it is stored.
type change struct {
	data      []byte // session.Record
	kind      string
	covers    session.Span // of a tail_discarded: what it discards
	itemID    string       // of an inbox_taken: what it takes
	passage   *passage     // of a message_added
	version   int64        // 0 in the tail
	discarded bool
}

// The kinds of change that this store acts on.
const (
	messageAdded  = "message_added"
	tailDiscarded = "tail_discarded"
	inboxTaken    = "inbox_taken"
)

// encodeChanges encodes records.
func (d *data) encodeChanges(records []session.Record) ([]change, error) {
	changes := make([]change, len(records))
	for i, r := range records {
		raw, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		changes[i] = change{data: raw, kind: r.Change.Kind()}
		switch c := r.Change.(type) {
		case session.MessageAdded:
			changes[i].passage = d.newPassage()
		case session.TailDiscarded:
			changes[i].covers = session.Span{From: c.From, To: c.To}
		case session.InboxTaken:
			changes[i].itemID = c.ItemID
		}
	}
	return changes, nil
}

// markDiscarded marks the changes that later ones among them discard. They are
// numbered from first on.
func markDiscarded(first int64, changes []change) []change {
	for _, c := range changes {
		if c.kind != tailDiscarded {
			continue
		}
		for seq := max(c.covers.From, first); seq <= c.covers.To; seq++ {
			changes[seq-first].discarded = true
		}
	}
	return changes
}

// stretch is a part of a log: the changes after a number. Another stretch may
// share its beginning; neither sees what the other adds.
type stretch struct {
	after    int64
	changes  []change
	messages []int64 // numbers of those that are messages
}

func (p stretch) last() int64 { return p.after + int64(len(p.changes)) }

// upTo returns the stretch without what follows a number. Its slices have no
// spare capacity, so that appending to one never overwrites the other.
func (p stretch) upTo(seq int64) stretch {
	n := max(0, min(seq, p.last())-p.after)
	m, _ := slices.BinarySearch(p.messages, seq+1)
	return stretch{after: p.after, changes: p.changes[:n:n], messages: p.messages[:m:m]}
}

// log is all sealed changes of a session: those of its parents, flattened,
// and its own.
type log struct {
	parents []stretch
	own     stretch
}

func (l log) last() int64 { return l.own.last() }

// with returns the log with changes sealed into a version.
func (l log) with(version int64, changes []change) log {
	for _, c := range changes {
		c.version = version
		l.own.changes = append(l.own.changes, c)
		if c.kind == messageAdded {
			l.own.messages = append(l.own.messages, l.own.last())
		}
	}
	return l
}

// forked returns an empty log that continues this one after a number. It costs
// one slice for each ancestor.
func (l log) forked(seq int64) log {
	var parents []stretch
	for _, p := range l.parts() {
		if p.after < seq {
			parents = append(parents, p.upTo(seq))
		}
	}
	return log{parents: parents, own: stretch{after: seq}}
}

func (l log) parts() []stretch { return append(slices.Clip(l.parents), l.own) }

// between returns the changes after one number, up to and including another, at
// most limit of them, oldest first.
func (l log) between(after, upTo int64, limit int) []change {
	var found []change
	for _, p := range l.parts() {
		if len(found) >= limit || p.last() <= after || p.after >= upTo {
			continue
		}
		wanted := p.changes[max(0, after-p.after):min(int64(len(p.changes)), upTo-p.after)]
		found = append(found, wanted[:min(len(wanted), limit-len(found))]...)
	}
	return found
}

// messages returns, in order, the messages in the spans and, unless the whole
// transcript is wanted, in the window.
func (l log) messages(id string, spans []session.Span, shown session.Window, whole bool) ([]session.Message, error) {
	var messages []session.Message
	add := func(p stretch, seq int64) error {
		r, err := decodeRecord(id, p.changes[seq-p.after-1].data)
		if err != nil {
			return err
		}
		added, ok := r.Change.(session.MessageAdded)
		if !ok {
			return &session.CorruptError{ID: id, Path: "log", Reason: "a message is not where it belongs"}
		}
		messages = append(messages, added.Message)
		return nil
	}
	wanted := store.ShownSpans(spans, shown, whole)
	for _, p := range l.parts() {
		for _, span := range wanted {
			// Only the messages of the span are visited, not what lies before.
			i, _ := slices.BinarySearch(p.messages, span.From)
			for ; i < len(p.messages) && (span.To == 0 || p.messages[i] <= span.To); i++ {
				if err := add(p, p.messages[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	return messages, nil
}

func decodeRecord(id string, raw []byte) (session.Record, error) {
	var r session.Record
	err := r.UnmarshalJSON(raw)
	return r, store.Unreadable(id, "log", err)
}

func decodeRecords(id string, changes []change) ([]session.Record, error) {
	records := make([]session.Record, len(changes))
	for i, c := range changes {
		var err error
		if records[i], err = decodeRecord(id, c.data); err != nil {
			return nil, err
		}
	}
	return records, nil
}
