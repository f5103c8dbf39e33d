package holdfast

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Limits say how large things may be. They are checked where things come in,
// before they are copied or written; what is over a limit is a
// session.LimitError and changes nothing. A zero field is the default. What a
// store has already is read whatever its size.
type Limits struct {
	// Message is how many bytes one message may have, with its attachments; so may
	// an item of an inbox and a response. 0: 32 MiB.
	Message int
	// Attachment is how many bytes one part of a message that is no text may have.
	// 0: 20 MiB.
	Attachment int
	// Document is how many bytes a new session may have: system prompt, messages
	// and metadata that it is created or imported with. 0: 64 MiB.
	Document int
	// Metadata is how many bytes all metadata of a session may have. 0: 1 MiB.
	Metadata int
	// Request is how many bytes a model may be sent at once. 0: 64 MiB.
	Request int
	// Forks is how many forks may lie above a fork: each makes loading a little
	// slower. 0: 1,000.
	Forks int
}

func (l Limits) withDefaults() (Limits, error) {
	if min(l.Message, l.Attachment, l.Document, l.Metadata, l.Request, l.Forks) < 0 {
		return l, &session.InvalidError{Field: "Config.Limits", Reason: "no limit is negative"}
	}
	l.Message, l.Attachment = cmp.Or(l.Message, 32<<20), cmp.Or(l.Attachment, 20<<20)
	l.Document, l.Metadata = cmp.Or(l.Document, 64<<20), cmp.Or(l.Metadata, 1<<20)
	l.Request, l.Forks = cmp.Or(l.Request, 64<<20), cmp.Or(l.Forks, 1000)
	return l, nil
}

// checkSize refuses what is over a limit.
func checkSize(what string, size, limit int, field string) error {
	if size <= limit {
		return nil
	}
	return &session.LimitError{What: what, Size: size, Limit: limit, Field: "Config.Limits." + field}
}

// checkSend refuses a message that is too large.
func (l Limits) checkSend(send SendMessage) error {
	if send.Message != nil {
		return l.checkMessage(*send.Message)
	}
	return checkSize("the message", len(send.Text), l.Message, "Message")
}

func (l Limits) checkMessage(m session.Message) error {
	for _, p := range m.Content {
		if p.Type == session.PartText {
			continue
		}
		if err := checkSize("an attachment of the message", p.Size(), l.Attachment, "Attachment"); err != nil {
			return err
		}
	}
	return checkSize("the message", m.Size(), l.Message, "Message")
}

// checkNew refuses a new session that begins with too much.
func (l Limits) checkNew(systemPrompt string, messages []session.Message, metadata session.Values) error {
	size := len(systemPrompt) + metadata.Size()
	for _, m := range messages {
		if err := l.checkMessage(m); err != nil {
			return err
		}
		size += m.Size()
	}
	if err := l.checkMetadata(metadata); err != nil {
		return err
	}
	return checkSize("the session", size, l.Document, "Document")
}

func (l Limits) checkMetadata(metadata session.Values) error {
	return checkSize("the metadata of the session", metadata.Size(), l.Metadata, "Metadata")
}

// changesMetadata reports whether a session has metadata to be saved.
func changesMetadata(s session.Session) bool {
	return slices.ContainsFunc(session.Unsaved(s), func(r session.Record) bool {
		_, written := r.Change.(session.MetadataWritten)
		return written
	})
}

// checkRequest refuses a request of so many bytes, if they are too many for any
// model.
func (l Limits) checkRequest(bytes int) error {
	return checkSize("the request to the model", bytes, l.Request, "Request")
}

// requestBytes returns how many bytes the texts of a request have.
func requestBytes(r llm.Request) int {
	size := len(r.System)
	for i := range r.Messages {
		size += r.Messages[i].Size()
	}
	for _, t := range r.Tools {
		size += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return size
}

// checkFork refuses a fork of a session that lies too deep.
func (l Limits) checkFork(source session.Info) error {
	if source.Fork != nil && source.Fork.Depth+1 > l.Forks {
		return &session.DepthError{Depth: source.Fork.Depth + 1, Max: l.Forks}
	}
	return nil
}
