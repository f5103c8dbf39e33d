package session

import (
	"fmt"
)

// Fold is the session a whole log makes, from its creation on. A log says
// nothing of versions: the result has version 0 and the caller seals it.
func Fold(records []Record) (Session, error) { return FoldFrom(Session{}, records) }

// FoldFrom is the session that further records make of an earlier one. Its
// messages are right as long as no record rewinds to ones the earlier session
// does not hold; a store that keeps a log picks them from it by Spans instead.
func FoldFrom(s Session, records []Record) (Session, error) {
	next, _, err := s.b.replay(records, maxSeq)
	if err != nil {
		return Session{}, err
	}
	return Session{next}, nil
}

// Replay is the session that records of another log of the same session make
// of s, with everything about them kept: number, time, and stretches that were
// discarded. It is how a history is copied from one store to another. The
// records follow s without a gap; on the zero session they are a log from its
// beginning, also that of a fork with its parent's.
//
// Those up to durable are in the store's open tail already; the others are
// unsaved. What a record discards must be among the records with it, because
// a discarded change is never in force. Messages are right under the same
// condition as FoldFrom's.
func Replay(s Session, records []Record, durable int64) (Session, error) {
	if !s.IsZero() && s.b.unsaved != nil {
		return s, invalid("session", "%s has changes of its own that are not written", quoted(s.ID()))
	}
	var before body
	if !s.IsZero() {
		before = *s.b
	}
	for _, span := range discardedRanges(records) {
		if span.From <= before.seq {
			return s, invalid("tail_discarded", "change %d is part of the session, which is at %d", span.From, before.seq)
		}
	}
	next, live, err := s.b.replay(records, durable)
	if err != nil {
		return s, err
	}
	next.live = before.live + live
	return Session{next}, nil
}

// replay applies records that follow the body without a gap. Those up to
// durable are durable, and the ones of them in force are counted; the others
// become unsaved. The records stay the caller's: what is kept of them is
// copied.
func (b *body) replay(records []Record, durable int64) (*body, int, error) {
	if b == nil {
		b = &body{}
	}
	start, discarded, live := b, discardedRanges(records), 0
	var added []*Message
	for _, r := range records {
		if r.Seq != b.seq+1 {
			return nil, 0, invalid("log", "change %d follows change %d", r.Seq, b.seq)
		}
		change, err := r.Change.normal()
		if err != nil {
			return nil, 0, fmt.Errorf("change %d: %w", r.Seq, err)
		}
		r = Record{Seq: r.Seq, At: Instant(r.At), Change: change}
		refused := Holds(discarded, r.Seq)
		next, err := b.next(r, refused)
		if err != nil {
			return nil, 0, fmt.Errorf("change %d: %w", r.Seq, err)
		}
		switch c := change.(type) {
		case MessageAdded:
			if !refused {
				added = append(added, next.msgs.at(next.msgs.len()-1))
			}
		case SessionRewound:
			if c.messages == nil && !refused {
				next.msgs = pick(start.msgs, added, next.spans)
			}
		}
		next.unsaved = nil
		if _, ok := change.(TailDiscarded); r.Seq <= durable && !ok && !refused {
			live++
		}
		if r.Seq > durable {
			next.unsaved = &link{before: b.begun(), record: r, refused: refused}
		}
		b = next
	}
	if b.info.ID == "" {
		return nil, 0, invalid("log", "is empty")
	}
	last := *b
	last.base, last.live = min(b.seq, max(start.seq, durable)), 0
	return &last, live, nil
}

// next is the body after a record, which leaves it as it was where it was
// refused.
func (b *body) next(r Record, refused bool) (*body, error) {
	if !refused {
		return b.folded(r)
	}
	skipped := *b
	skipped.seq = r.Seq
	return &skipped, nil
}

// begun is the body, or nil where nothing was recorded yet.
func (b *body) begun() *body {
	if b.seq == 0 {
		return nil
	}
	return b
}

func discardedRanges(records []Record) []Span {
	var ranges []Span
	for _, r := range records {
		if d, ok := r.Change.(TailDiscarded); ok {
			ranges = append(ranges, Span{From: d.From, To: d.To})
		}
	}
	return ranges
}
