package cli

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// serverTurn shows a turn that a server runs, by what the server records and
// streams of it. Each word of an answer is shown once, also where the
// connection broke and the server sends the answer from its beginning again.
type serverTurn struct {
	*turnView
	seen    atomic.Int64     // the last change that was heard of
	attempt holdfast.Attempt // whose words are shown
	shown   string           // of the answer in progress
	again   string           // the part of it that is to come a second time
}

// followTurn begins to show the turns of a session of a server. Stop is given
// the session after the turn, the zero session if there is none.
func (n *turnView) followTurn(ctx context.Context, e *env) (stop func(after session.Session), err error) {
	now, err := e.Get(ctx, n.id, holdfast.WithTail())
	if err != nil {
		return nil, err
	}
	t := &serverTurn{turnView: n}
	t.seen.Store(now.Seq())
	n.stepStarted(holdfast.StepStarted{About: holdfast.About{SessionID: n.id}})
	ctx, cancel := context.WithCancel(ctx)
	heard, over := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(over)
		for u, err := range e.Follow(ctx, n.id, now.Seq()) {
			if err != nil {
				return // the turn does not depend on it, and has the answer
			}
			t.hear(u)
			select {
			case heard <- struct{}{}:
			default:
			}
		}
	}()
	return func(after session.Session) {
		late := time.NewTimer(hearing)
		defer late.Stop()
		missing := func() bool { return !after.IsZero() && t.seen.Load() < after.Seq() }
		for waits := true; waits && missing(); {
			select {
			case <-heard:
			case <-over:
				waits = false
			case <-late.C:
				waits = false
			}
		}
		cancel()
		<-over
		if missing() {
			t.answer(after.Reply())
		}
	}, nil
}

// hear shows an update.
func (t *serverTurn) hear(u holdfast.Update) {
	switch {
	case u.Record != nil:
		t.seen.Store(u.Record.Seq)
		t.record(u.Record.Record)
	case u.Dropped != nil && *u.Dropped == t.attempt:
		t.again = t.shown
	case u.Delta != nil:
		t.delta(*u.Delta)
	}
}

// delta shows the part of a piece that was not shown before.
func (t *serverTurn) delta(d holdfast.Delta) {
	if d.Attempt != t.attempt {
		t.dropShown(d.Number)
		t.attempt = d.Attempt
	}
	text := d.Text
	switch {
	case strings.HasPrefix(t.again, text):
		t.again, text = t.again[len(text):], ""
	case strings.HasPrefix(text, t.again):
		t.again, text = "", text[len(t.again):]
	default:
		t.dropShown(d.Number)
	}
	t.shown += text
	t.showDelta(llm.Delta{Text: text, ToolCall: d.ToolCall})
}

// answer shows what is left of an answer that is whole.
func (t *serverTurn) answer(text string) {
	if !strings.HasPrefix(text, t.shown) {
		t.dropShown(0)
	}
	t.showDelta(llm.Delta{Text: text[len(t.shown):]})
	t.attempt, t.shown, t.again = holdfast.Attempt{}, "", ""
}

// dropShown says that what was shown of an answer is void.
func (t *serverTurn) dropShown(attempt int) {
	if t.shown != "" {
		t.attemptFailed(holdfast.AttemptFailed{About: holdfast.About{SessionID: t.id}, Attempt: attempt, Retry: true})
	}
	t.shown, t.again = "", ""
}

// record shows a change of the log.
func (t *serverTurn) record(r session.Record) {
	about := holdfast.About{SessionID: t.id, Time: r.At}
	switch c := r.Change.(type) {
	case session.MessageAdded:
		switch m := c.Message; {
		case m.Role == session.RoleAssistant:
			for _, call := range m.ToolCalls {
				t.showDelta(llm.Delta{ToolCall: &call})
			}
			t.answer(m.Content.Text())
		case m.ToolResult != nil && m.ToolResult.IsError:
			t.failures.noteTool(m.ToolResult.CallID, m.ToolResult.Content)
		}
	case session.ToolStarted:
		t.toolStarted(holdfast.ToolStarted{About: about, StepID: c.StepID, CallID: c.CallID, Tool: c.ToolName})
	case session.ToolFinished:
		t.toolFinished(holdfast.ToolFinished{About: about, StepID: c.StepID, CallID: c.CallID, Tool: c.ToolName, IsError: c.IsError})
	case session.StepFinished:
		t.stepStarted(holdfast.StepStarted{About: about})
	}
}
