package session

import (
	"slices"
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
		if _, ok := l.record.Change.(TailDiscarded); !ok {
			b.live++
		}
	}
	b.base, b.pending = b.seq, nil
	return Session{&b}
}

// WithTail lays an open tail on a session as it was last saved. Records of
// discarded ranges are skipped.
func (s Session) WithTail(records []Record) (Session, error) {
	if len(records) == 0 {
		return s, nil
	}
	live := 0
	discarded := discardedRanges(records)
	b := s.b
	for _, r := range records {
		if r.Seq != b.seq+1 {
			return s, invalid("tail", "change %d follows change %d", r.Seq, b.seq)
		}
		if Holds(discarded, r.Seq) {
			skipped := *b
			skipped.seq = r.Seq
			b = &skipped
			continue
		}
		next, err := b.folded(r)
		if err != nil {
			return s, err
		}
		if _, ok := r.Change.(TailDiscarded); !ok {
			live++
		}
		b = next
	}
	last := *b
	last.base, last.live, last.pending = b.seq, live, nil
	return Session{&last}, nil
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

// Fold is the session a whole log makes, from its creation on. With version 0
// and no header of its own a log says nothing of versions: the caller seals.
func Fold(records []Record) (Session, error) {
	return fold(nil, records)
}

// FoldFrom is the session that further records make of an earlier one. Its
// messages are right as long as no record rewinds; a store that keeps a log
// picks them from it by Spans instead.
func FoldFrom(s Session, records []Record) (Session, error) {
	return fold(s.b, records)
}

func fold(b *body, records []Record) (Session, error) {
	discarded := discardedRanges(records)
	all := map[int64]*Message{}
	if b != nil {
		for _, m := range b.msgs.all() {
			all[m.Seq] = m
		}
	}
	for _, r := range records {
		if b != nil && r.Seq <= b.seq {
			return Session{}, invalid("log", "change %d follows change %d", r.Seq, b.seq)
		}
		if Holds(discarded, r.Seq) {
			continue
		}
		next, err := b.folded(r)
		if err != nil {
			return Session{}, err
		}
		if added, ok := r.Change.(MessageAdded); ok {
			m := added.Message
			all[m.Seq] = &m
		}
		if next.rewound {
			next.msgs, next.rewound = pick(all, next.spans), false
		}
		b = next
	}
	if b == nil {
		return Session{}, invalid("log", "is empty")
	}
	last := *b
	last.base, last.live, last.pending = b.seq, 0, nil
	return Session{&last}, nil
}

// pick is the transcript that spans make of messages.
func pick(all map[int64]*Message, spans []Span) vector[*Message] {
	var seqs []int64
	for seq := range all {
		if Holds(spans, seq) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	var v vector[*Message]
	for _, seq := range seqs {
		v = v.append(all[seq])
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

// Rooted is the same version-0 session with a log of its own that needs no
// parent's: creation, then each message, then the window. Stores use it to
// create a fork whose parent they do not hold. Messages get new numbers.
func (s Session) Rooted() (Session, error) {
	if s.Partial() {
		return Session{}, invalid("session", "%s holds a part of its transcript only and cannot be stored whole", quoted(s.ID()))
	}
	info, state := s.Info(), s.b.st
	at := state.UpdatedAt
	info.Version, info.Seq, info.MessageCount = 0, 0, 0
	window := state.Window
	state.Window, state.Messages = Window{Keep: []int64{}}, nil
	next, err := Session{}.record(at, SessionCreated{Header: info, Definition: *s.b.def, State: state})
	if err != nil {
		return Session{}, err
	}
	moved := map[int64]int64{}
	first := int64(0)
	for _, m := range s.b.msgs.all() {
		old := m.Seq
		if next, err = next.WithMessage(*m, at); err != nil {
			return Session{}, err
		}
		moved[old] = next.b.seq
		if first == 0 && old >= window.FromSeq {
			first = next.b.seq
		}
	}
	if window.FromSeq == 0 && window.Summary == nil {
		return next, nil
	}
	if first == 0 {
		first = next.b.seq + 1
	}
	keep := make([]int64, 0, len(window.Keep))
	for _, seq := range window.Keep {
		keep = append(keep, moved[seq])
	}
	summary := clonePtr(window.Summary)
	if summary != nil {
		summary.FromSeq, summary.ToSeq = moved[summary.FromSeq], moved[summary.ToSeq]
		summary.Usage, summary.Cost = Usage{}, 0 // counted in the totals already
	}
	return next.record(at, WindowMoved{Strategy: PruneAll, To: first, Keep: keep, Summary: summary})
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
	err := b.hold(messages)
	return Session{&b}, err
}
