package session

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// What follows is for stores: how a session is sealed into a version, how an
// open tail is laid on it, and how a log is folded.

// Sealed is the session as a store keeps it after a save: one version more,
// everything pending or in the tail part of it, UpdatedAt later than before.
func (s Session) Sealed(at time.Time) Session {
	b := *s.b
	b.info.Version++
	b.info.Seq, b.base, b.live, b.pending = b.seq, b.seq, 0, nil
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

// Flushed is the session after its pending changes became durable in the open
// tail: they are in force, no longer pending, and not yet part of a version.
func (s Session) Flushed() Session {
	b := *s.b
	for l := b.pending; l != nil; l = l.earlier() {
		if _, ok := l.record.Change.(TailDiscarded); !ok && !l.refused {
			b.live++
		}
	}
	b.base, b.pending = b.seq, nil
	return Session{&b}
}

// WithTail lays an open tail on a session as it was last saved. Records of
// discarded ranges are skipped. Messages are right under the same condition as
// FoldFrom's.
func (s Session) WithTail(records []Record) (Session, error) {
	next, live, err := s.b.replay(records, maxSeq)
	if err != nil {
		return s, err
	}
	next.live = s.b.live + live
	return Session{next}, nil
}

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

// replay applies records that follow the body without a gap. Those up to
// durable are durable, and the ones of them in force are counted; the others
// become pending. The records stay the caller's: what is kept of them is
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
		next.pending = nil
		if _, ok := change.(TailDiscarded); r.Seq <= durable && !ok && !refused {
			live++
		}
		if r.Seq > durable {
			next.pending = &link{before: b.begun(), record: r, refused: refused}
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

// pick is the transcript that spans make of messages in order.
func pick(messages vector[*Message], more []*Message, spans []Span) vector[*Message] {
	var v vector[*Message]
	for _, m := range messages.all() {
		if Holds(spans, m.Seq) {
			v = v.append(m)
		}
	}
	for _, m := range more {
		if Holds(spans, m.Seq) {
			v = v.append(m)
		}
	}
	return v
}

// Spans are the stretches of the log whose messages make the transcript.
func (s Session) Spans() []Span { return slices.Clone(s.b.spans) }

// Shown reports whether the window shows the message with this number.
func (s Session) Shown(seq int64) bool {
	w := s.b.st.Window
	return seq >= w.FromSeq || slices.Contains(w.Keep, seq)
}

// ForkedFrom is the agent id of the session that a version-0 fork was made
// of, "" for any other session. Ids can be purged and made again, agent ids
// cannot: by it a store knows whether the parent it holds is the right one.
func (s Session) ForkedFrom() string {
	for l := s.b.pending; l != nil; l = l.earlier() {
		if _, ok := l.record.Change.(SessionForked); ok && l.before != nil {
			return l.before.st.AgentID
		}
	}
	return ""
}

// Holding is a head with the messages a store loaded for it, in the order of
// their numbers, in the place of those it has.
func (s Session) Holding(messages []Message) (Session, error) {
	b := *s.b
	if err := b.hold(messages); err != nil {
		return s, err
	}
	return Session{&b}, nil
}

// Rooted is the same version-0 session with a log of its own that needs no
// parent's: creation, then each message. Stores use it to create a fork whose
// parent they do not hold. Messages get new numbers, and the window with them.
func (s Session) Rooted() (Session, error) {
	if s.Partial() {
		return Session{}, invalid("session", "%s holds a part of its transcript only and cannot be stored whole", quoted(s.ID()))
	}
	info, state := s.Info(), s.b.st
	info.Version, info.Seq, info.MessageCount = 0, 0, 0
	state.Window = s.b.renumbered()
	if state.Workflow != nil { // all of it comes from the ledger
		state.Workflow, state.Usage, state.Cost, state.InferenceCount = nil, Usage{}, 0, 0
	}
	at := state.UpdatedAt
	next, err := Session{}.record(at, SessionCreated{Header: info, Definition: *s.b.def, State: state})
	if err != nil {
		return Session{}, err
	}
	for _, r := range s.b.course() {
		if next, err = next.record(at, r.Change); err != nil {
			return Session{}, err
		}
	}
	return next, nil
}

// course is the transcript and the ledger as one, in order.
func (b *body) course() []Record {
	records := make([]Record, 0, b.msgs.len()+b.ledger.len())
	i := 0
	for _, m := range b.msgs.all() {
		for ; i < b.ledger.len() && b.ledger.at(i).Seq < m.Seq; i++ {
			records = append(records, *b.ledger.at(i))
		}
		records = append(records, Record{Seq: m.Seq, At: m.CreatedAt, Change: MessageAdded{Message: *m}})
	}
	for ; i < b.ledger.len(); i++ {
		records = append(records, *b.ledger.at(i))
	}
	return records
}

// renumbered is the window of a transcript whose messages are numbered from
// firstRooted on.
func (b *body) renumbered() Window {
	const firstRooted = 2 // the creation is 1
	w := b.st.Window.clone()
	place := func(seq int64) int64 { // of the first message that is not before seq
		i := sort.Search(b.msgs.len(), func(i int) bool { return b.msgs.at(i).Seq >= seq })
		return int64(firstRooted + i)
	}
	if w.FromSeq > 0 {
		w.FromSeq = place(w.FromSeq)
	}
	keep := w.Keep
	w.Keep = []int64{}
	for _, seq := range keep {
		if i := place(seq); i < place(seq+1) {
			w.Keep = append(w.Keep, i)
		}
	}
	if w.Summary != nil {
		w.Summary.FromSeq, w.Summary.ToSeq = place(w.Summary.FromSeq), place(w.Summary.ToSeq+1)-1
	}
	return w
}
