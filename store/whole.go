package store

import (
	"context"

	"github.com/holdfast-dev/holdfast/session"
)

// Whole returns a session with all its messages and, for a workflow run, its
// ledger. It reads from the log what the session was loaded without. The session
// may be of any version, or have an open tail.
func Whole(ctx context.Context, logs Logs, s session.Session) (session.Session, error) {
	if !s.Partial() {
		return s, nil
	}
	spans, last := session.Spans(s), session.Base(s)
	var messages []session.Message
	var ledger []session.Record
	for after := int64(0); after < last; {
		entries, err := logs.Log(ctx, RefOf(s), after, 0)
		if err != nil {
			return s, err
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			after = e.Seq
			if e.Seq > last || e.Discarded || !session.Holds(spans, e.Seq) {
				continue
			}
			if added, ok := e.Change.(session.MessageAdded); ok {
				messages = append(messages, added.Message)
			} else if session.InLedger(e.Change) {
				ledger = append(ledger, e.Record)
			}
		}
	}
	whole, err := session.AttachMessages(s, messages)
	if err == nil {
		whole, err = session.AttachLedger(whole, ledger)
	}
	if err == nil && whole.Partial() {
		err = &session.CorruptError{ID: s.ID(), Path: "log", Reason: "changes are missing"}
	}
	return whole, err
}
