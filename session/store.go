package session

import (
	"slices"
	"time"
)

// This file is for authors of stores; who only uses sessions needs none of it.
// A store writes Unsaved changes either into a version (Seal is the session
// afterwards) or into the open tail (Flush). To load, it reads a head with
// DecodeHead and applies the tail to it with ApplyTail.

// Unsaved lists the changes made since the session was loaded or last written.
func Unsaved(s Session) []Record {
	var records []Record
	for l := s.b.unsaved; l != nil; l = l.earlier() {
		c, err := l.record.Change.normal() // a deep copy; it was normal before
		if err != nil {
			panic("session: an unsaved change is not normal: " + err.Error())
		}
		records = append(records, Record{Seq: l.record.Seq, At: l.record.At, Change: c})
	}
	slices.Reverse(records)
	return records
}

// Base returns the number of the last change that s knows to be durable. A
// store refuses to save a session whose base is not the store's last change.
func Base(s Session) int64 { return s.b.base }

// baseSum is the checksum of a change.
type baseSum struct{ seq, sum int64 }

// BaseSum returns the checksum that a store has given to the change that Base
// names. It is false where the value does not have it.
func BaseSum(s Session) (int64, bool) { return s.b.sum.sum, s.b.base > 0 && s.b.sum.seq == s.b.base }

// WithBaseSum returns the session with the checksum of the change that Base
// names, for a store that chains the checksum of the next change to it.
func WithBaseSum(s Session, sum int64) Session {
	b := *s.b
	b.sum = baseSum{seq: b.base, sum: sum}
	return Session{&b}
}

// Spans lists the ranges of the log whose messages make the transcript.
func Spans(s Session) []Span { return slices.Clone(s.b.spans) }

// Seal returns the session as it is after a save: one version more, with the
// unsaved changes and the open tail part of it. UpdatedAt always increases.
func Seal(s Session, at time.Time) Session {
	b := *s.b
	b.info.Version++
	b.info.Seq, b.base, b.live, b.unsaved, b.retag = b.seq, b.seq, 0, nil, false
	if b.info.Version == 1 {
		b.info.UpdatedAt = maxTime(Instant(at), b.info.CreatedAt)
	} else {
		b.info.UpdatedAt = after(b.info.UpdatedAt, at)
	}
	return Session{&b}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Flush returns the session after its unsaved changes became durable in the
// open tail: they are in force and not yet part of a version.
func Flush(s Session) Session {
	b := *s.b
	for l := b.unsaved; l != nil; l = l.earlier() {
		if _, ok := l.record.Change.(TailDiscarded); !ok && !l.refused {
			b.live++
		}
	}
	b.base, b.unsaved = b.seq, nil
	return Session{&b}
}

// ApplyTail applies the records of an open tail to a session as it was last
// saved. Discarded records are skipped. The messages are right under the same
// condition as FoldFrom's.
func ApplyTail(s Session, records []Record) (Session, error) {
	next, live, err := s.b.replay(records, maxSeq)
	if err != nil {
		return s, err
	}
	next.live = s.b.live + live
	return Session{next}, nil
}

// DiscardTail records that the durable changes from..to were refused. It takes
// the session as it was loaded, whose state does not change.
func DiscardTail(s Session, from, to int64, at time.Time) (Session, error) {
	if from <= s.b.seq {
		return s, invalid("tail_discarded", "change %d is part of the session, which is at %d", from, s.b.seq)
	}
	skipped := *s.b
	skipped.base, skipped.seq = to, to
	next, err := Session{&skipped}.record(at, TailDiscarded{From: from, To: to})
	if err != nil {
		return s, err
	}
	return next, nil
}

// AttachMessages replaces the messages of a session by those that a store
// loaded for it, which are in the order of their numbers: at least all that its
// window shows.
func AttachMessages(s Session, messages []Message) (Session, error) {
	b := *s.b
	if err := b.setMessages(messages); err != nil {
		return s, err
	}
	b.windowHeld = true
	return Session{&b}, nil
}

// WithoutMessages returns a session without the messages that it holds.
func WithoutMessages(s Session) Session {
	b := *s.b
	b.msgs, b.windowHeld = transcript{}, false
	return Session{&b}
}

// AttachLedger replaces the ledger of a session by the one that a store loaded
// for it.
func AttachLedger(s Session, records []Record) (Session, error) {
	b := *s.b
	if err := b.setLedger(records); err != nil {
		return s, err
	}
	return Session{&b}, nil
}

// ForkedFrom returns the agent id of the session that a version-0 fork was
// made of, "" for any other session. A purged session id can be used again, an
// agent id cannot: it tells a store whether it holds the right parent.
func ForkedFrom(s Session) string {
	for l := s.b.unsaved; l != nil; l = l.earlier() {
		if _, ok := l.record.Change.(SessionForked); ok && l.before != nil {
			return l.before.st.AgentID
		}
	}
	return ""
}

// Amend rewrites the unsaved changes and applies them again, so that value and
// log agree. The runtime masks secrets with it before anything is written.
func Amend(s Session, rewrite func(Change) (Change, error)) (Session, error) {
	var links []*link
	for l := s.b.unsaved; l != nil; l = l.earlier() {
		links = append(links, l)
	}
	if len(links) == 0 {
		return s, nil
	}
	next := Session{links[len(links)-1].before}
	for i := len(links) - 1; i >= 0; i-- {
		r := links[i].record
		change, err := r.Change.normal() // a copy: rewriting must not reach s
		if err != nil {
			return s, err
		}
		if change, err = rewrite(change); err != nil {
			return s, err
		}
		if next, err = next.record(r.At, change); err != nil {
			return s, err
		}
	}
	return next, nil
}
