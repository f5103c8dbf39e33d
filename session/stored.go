package session

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
