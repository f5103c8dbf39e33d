package session

// Replay is the session that records of another log of the same session make
// of s, with everything about them kept: number, time, and stretches that were
// discarded. It is how a history is copied from one store to another. The
// records follow s without a gap; on the zero session they are a log from its
// beginning, also that of a fork with its parent's.
//
// Those up to durable are in the store's open tail already; the others are
// pending. What a record discards must be among the records with it, because
// a discarded change is never in force. Messages are right under the same
// condition as FoldFrom's.
func Replay(s Session, records []Record, durable int64) (Session, error) {
	if !s.IsZero() && s.b.pending != nil {
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
