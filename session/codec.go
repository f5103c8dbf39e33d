package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// The names and versions of the formats this package reads and writes.
const (
	Format        = "holdfast.session"
	FormatVersion = 1
	headFormat    = "holdfast.head"
)

type document struct {
	Format        string          `json:"format"`
	FormatVersion int             `json:"formatVersion"`
	Header        json.RawMessage `json:"header"`
	Definition    json.RawMessage `json:"definition"`
	State         json.RawMessage `json:"state"`
	Spans         []Span          `json:"spans,omitempty"`  // heads only
	Ledger        []Record        `json:"ledger,omitempty"` // not in heads
}

// MarshalJSON writes the session document: format, header, definition, state.
// The state holds the messages this value holds; unsaved changes are part of
// it, the version is that of the last save.
func (s Session) MarshalJSON() ([]byte, error) {
	if s.IsZero() {
		return []byte("null"), nil
	}
	return s.document(Format, s.b.msgs, s.Partial(), nil, s.b.ledger)
}

func (s Session) document(format string, messages transcript, partial bool, spans []Span, ledger vector[*Record]) ([]byte, error) {
	w := &writer{b: make([]byte, 0, s.b.size()+(messages.len()+ledger.len())*512)}
	w.open()
	w.text("format", format)
	w.number("formatVersion", FormatVersion)
	w.any("header", s.b.info)
	w.any("definition", s.b.def)
	w.key("state")
	w.state(&s.b.st, messages, partial)
	if len(spans) > 0 {
		w.any("spans", spans)
	}
	w.ledger(ledger)
	w.close()
	data, err := w.done()
	if err != nil {
		return nil, fmt.Errorf("encode session %s: %w", s.ID(), err)
	}
	return data, nil
}

// size is about how long everything but the messages is, in bytes.
func (b *body) size() int {
	n := 4096 + len(b.def.SystemPrompt) + len(b.st.SystemPrompt)
	for _, raw := range b.st.Metadata {
		n += len(raw)
	}
	for _, v := range b.st.Variables {
		n += len(v.Value)
	}
	return n
}

// Decode reads a session document. The error is an InvalidError that names
// the part, or a NewerFormatError.
func Decode(data []byte) (Session, error) {
	d, err := openDocument(Format, data)
	if err != nil {
		return Session{}, err
	}
	if d.Spans != nil {
		return Session{}, invalid("document.spans", "unknown field")
	}
	s, partial, err := d.session()
	if err != nil {
		return Session{}, err
	}
	if partial != s.Partial() {
		return Session{}, invalid("state.partial", "is %t where the header counts %d messages and %d are here", partial, s.b.info.MessageCount, s.Len())
	}
	return s, nil
}

// UnmarshalJSON reads a session document. As is the custom, null changes nothing.
func (s *Session) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	decoded, err := Decode(data)
	if err != nil {
		return err
	}
	*s = decoded
	return nil
}

// EncodeHead writes everything of a session but its messages, for stores that
// keep a log.
func EncodeHead(s Session) ([]byte, error) {
	return s.document(headFormat, transcript{}, false, s.b.spans, vector[*Record]{})
}

// DecodeHead reads a head and gives it the messages the store loaded for it,
// in the order of their numbers.
func DecodeHead(data []byte, messages []Message) (Session, error) {
	d, err := openDocument(headFormat, data)
	if err != nil {
		return Session{}, err
	}
	if len(d.Spans) == 0 {
		return Session{}, invalid("spans", "missing or invalid spans")
	}
	if d.Ledger != nil {
		return Session{}, invalid("ledger", "a head has none")
	}
	if err := checkSpans(d.Spans); err != nil {
		return Session{}, err
	}
	s, partial, err := d.session()
	if err != nil {
		return Session{}, err
	}
	if s.Len() > 0 || partial {
		return Session{}, invalid("state.messages", "a head has none")
	}
	s.b.spans = d.Spans
	if err := s.b.setMessages(messages); err != nil {
		return Session{}, err
	}
	return s, nil
}

// setMessages sets the messages of a body under construction.
func (b *body) setMessages(messages []Message) error {
	kept := make([]*Message, len(messages))
	last := int64(0)
	for i, m := range messages {
		m, err := m.normal()
		if err != nil {
			return err
		}
		if m.Seq <= last {
			return invalid("state.messages", "message %s has seq %d after %d", quoted(m.ID), m.Seq, last)
		}
		last = m.Seq
		kept[i] = &m
	}
	if len(kept) > b.info.MessageCount {
		return invalid("state.messages", "%d messages where the header counts %d", len(kept), b.info.MessageCount)
	}
	if n := b.st.TraceCount; n != nil && *n > b.info.MessageCount {
		return invalid("state.traceCount", "%d where the header counts %d messages", *n, b.info.MessageCount)
	}
	if last > b.seq {
		return invalid("state.messages", "message at %d is later than the session at %d", last, b.seq)
	}
	b.msgs = transcriptOf(kept)
	return nil
}

func openDocument(format string, data []byte) (document, error) {
	if d, ok := scanDocument(format, data); ok {
		return d, nil
	}
	var probe struct {
		Format        string `json:"format"`
		FormatVersion int    `json:"formatVersion"`
	}
	if err := json.Unmarshal(data, &probe); err != nil {
		return document{}, decodeProblemOf("document", data, err)
	}
	switch {
	case probe.Format == "":
		return document{}, invalid("format", "missing or invalid format")
	case probe.Format != format:
		return document{}, invalid("format", "%s is not %q", quoted(probe.Format), format)
	}
	if err := checkFormatVersion(probe.FormatVersion); err != nil {
		return document{}, err
	}
	var d document
	if err := DecodeStrict("document", data, &d); err != nil {
		return document{}, err
	}
	for _, part := range []struct {
		name string
		raw  json.RawMessage
	}{{"header", d.Header}, {"definition", d.Definition}, {"state", d.State}} {
		if raw := bytes.TrimSpace(part.raw); len(raw) == 0 || raw[0] != '{' {
			return document{}, invalid(part.name, "missing or invalid %s", part.name)
		}
	}
	return d, nil
}

// session is the document's session and whether it says to be partial.
func (d document) session() (Session, bool, error) {
	b := &body{spans: []Span{{From: 1}}}
	if err := b.info.UnmarshalJSON(d.Header); err != nil {
		return Session{}, false, err
	}
	var def Definition
	if err := DecodeStrict("definition", d.Definition, &def); err != nil {
		return Session{}, false, err
	}
	def, err := storedDefinition(def)
	if err != nil {
		return Session{}, false, err
	}
	b.def = &def
	if err := DecodeStrict("state", d.State, &b.st); err != nil {
		return Session{}, false, err
	}
	if b.st, err = b.st.normal(); err != nil {
		return Session{}, false, err
	}
	b.setPending(b.st.Pending)
	messages, partial := b.st.Messages, b.st.Partial
	b.st.Messages, b.st.Partial = nil, false
	b.seq = b.info.Seq
	if n := len(messages); n > 0 && messages[n-1].Seq < maxSeq { // the document of a session with unsaved messages
		b.seq = max(b.seq, messages[n-1].Seq)
	}
	if n := len(d.Ledger); n > 0 && d.Ledger[n-1].Seq < maxSeq {
		b.seq = max(b.seq, d.Ledger[n-1].Seq)
	}
	b.base = b.seq
	if err := b.setMessages(messages); err != nil {
		return Session{}, false, err
	}
	if err := b.setLedger(d.Ledger); err != nil {
		return Session{}, false, err
	}
	return Session{b}, partial, nil
}

// DecodeHeader reads only the header of a session document: what follows it
// is not looked at, so a caller may pass the beginning of a long one.
func DecodeHeader(data []byte) (Info, error) {
	if info, ok := scanHeader(data); ok {
		return info, nil
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return Info{}, invalid("document", "is not a JSON object")
	}
	seen := document{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return Info{}, invalid("document", "%v", err)
		}
		switch key {
		case "format":
			err = dec.Decode(&seen.Format)
		case "formatVersion":
			err = dec.Decode(&seen.FormatVersion)
		case "header":
			return seen.header(dec)
		default:
			return Info{}, invalid("header", "missing or invalid header")
		}
		if err != nil {
			return Info{}, decodeProblem("document", err)
		}
	}
	return Info{}, invalid("header", "missing or invalid header")
}

func (d document) header(dec *json.Decoder) (Info, error) {
	if d.Format != Format {
		return Info{}, invalid("format", "missing or invalid format")
	}
	if err := checkFormatVersion(d.FormatVersion); err != nil {
		return Info{}, err
	}
	var info Info
	if err := dec.Decode(&info); err != nil {
		return Info{}, decodeProblem("header", err)
	}
	if info.ID == "" {
		return Info{}, invalid("header", "missing or invalid header")
	}
	return info, nil
}

func checkFormatVersion(version int) error {
	if version > FormatVersion {
		return &NewerFormatError{What: "format version", Have: strconv.Itoa(version), Know: strconv.Itoa(FormatVersion)}
	}
	if version < 1 {
		return invalid("formatVersion", "missing or invalid formatVersion")
	}
	return nil
}
