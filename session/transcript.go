package session

import (
	"slices"
	"sort"
)

// transcript is the messages of a session in order, and about how many bytes
// of memory they take.
type transcript struct {
	vector[*Message]
	bytes int
}

// messageBytes is about what a message takes beside its contents.
const messageBytes = 512

func transcriptOf(messages []*Message) transcript {
	t := transcript{vector: vectorOf(messages)}
	for _, m := range messages {
		t.bytes += messageBytes + m.Size()
	}
	return t
}

func (t transcript) append(m *Message) transcript {
	return transcript{vector: t.vector.append(m), bytes: t.bytes + messageBytes + m.Size()}
}

// from is the index of the first message that has this number or a later one.
func (t transcript) from(seq int64) int {
	return sort.Search(t.len(), func(i int) bool { return t.at(i).Seq >= seq })
}

// copies lists deep copies of the messages from an index on that a function
// wants, nil for all of them. Their contents are allocated at once, because
// every question to a model has a copy of everything that the window shows.
func (t transcript) copies(first int, wants func(*Message) bool) []Message {
	wanted := make([]*Message, 0, t.len()-first)
	size := 0
	for i := first; i < t.len(); i++ {
		if m := t.at(i); wants == nil || wants(m) {
			wanted = append(wanted, m)
			size += len(m.Content)
		}
	}
	copies, parts := make([]Message, len(wanted)), make(Content, 0, size)
	for i, m := range wanted {
		content := m.Content
		if content != nil {
			start := len(parts)
			parts = append(parts, content...)
			content = parts[start:len(parts):len(parts)] // appending to it does not reach the next
		}
		copies[i] = m.cloneWith(content)
	}
	return copies
}

// pick is the transcript that spans make of messages in order.
func pick(messages transcript, more []*Message, spans []Span) transcript {
	var picked transcript
	for _, m := range messages.all() {
		if Holds(spans, m.Seq) {
			picked = picked.append(m)
		}
	}
	for _, m := range more {
		if Holds(spans, m.Seq) {
			picked = picked.append(m)
		}
	}
	return picked
}

// Weight is about how many bytes of memory a session takes.
func Weight(s Session) int64 { return int64(s.b.size() + s.b.msgs.bytes) }

// HoldsWindow reports whether a session holds all messages that its window
// shows. One that was read without them, or whose window has since moved to
// messages that were not read, does not.
func HoldsWindow(s Session) bool { return s.b.windowHeld || !s.Partial() }

// DropHidden returns a session without the messages that its window does not
// show, as a store loads it, if they are the greater part.
func DropHidden(s Session) Session {
	hidden := s.b.msgs.from(s.b.st.Window.FromSeq)
	if hidden <= s.b.msgs.len()/2 {
		return s
	}
	b := *s.b
	b.msgs, b.windowHeld = transcript{}, HoldsWindow(s)
	kept := slices.Clone(s.b.st.Window.Keep)
	slices.Sort(kept)
	for _, seq := range slices.Compact(kept) { // every turn does this: never walk what is hidden
		if i := s.b.msgs.from(seq); i < hidden && s.b.msgs.at(i).Seq == seq {
			b.msgs = b.msgs.append(s.b.msgs.at(i))
		}
	}
	for i := hidden; i < s.b.msgs.len(); i++ {
		b.msgs = b.msgs.append(s.b.msgs.at(i))
	}
	if b.msgs.len() == s.b.msgs.len() {
		return s // the window keeps them
	}
	return Session{&b}
}
