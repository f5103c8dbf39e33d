package session

import (
	"fmt"
	"slices"
)

// MessageAdded appends a message to the transcript. Its Seq is that of the record.
type MessageAdded struct {
	Message Message `json:"message"`
}

// Kind is message_added.
func (MessageAdded) Kind() string { return "message_added" }

func (c MessageAdded) normal() (Change, error) {
	m, err := c.Message.normal()
	return MessageAdded{Message: m}, err
}

func (c MessageAdded) fold(b *body, t recordTime) error {
	m := c.Message
	m.Seq = t.seq
	b.msgs = b.msgs.append(&m)
	b.info.MessageCount++
	if n := b.st.TraceCount; m.Trace && n != nil {
		b.st.TraceCount = new(*n + 1)
	}
	if m.StepID == "" || !b.st.Execution.has(m.StepID) {
		return nil
	}
	return b.updateStep(m.StepID, func(s *Step) error {
		if !slices.Contains(s.MessageIDs, m.ID) {
			s.MessageIDs = append(s.MessageIDs, m.ID)
		}
		return nil
	})
}

// TranscriptCleared empties transcript, window and summary, and abandons an
// interrupted execution. The log keeps everything.
type TranscriptCleared struct{}

// Kind is transcript_cleared.
func (TranscriptCleared) Kind() string { return "transcript_cleared" }

func (c TranscriptCleared) normal() (Change, error) { return c, nil }

func (c TranscriptCleared) fold(b *body, t recordTime) error {
	if b.st.Workflow != nil {
		return invalid("transcript_cleared", "the transcript of a workflow run is its work")
	}
	b.msgs, b.info.MessageCount = transcript{}, 0
	if b.st.TraceCount != nil { // an older log must make the same state as ever
		b.st.TraceCount = new(0)
	}
	b.spans = []Span{{From: t.seq + 1}}
	b.st.Window, b.st.Execution, b.st.Partial = Window{Keep: []int64{}}, nil, false
	b.setPending(nil)
	return nil
}

// WindowMoved changes what the model is shown; it deletes nothing.
type WindowMoved struct {
	Strategy Strategy `json:"strategy"` // empty: widened by hand, or as it was imported
	Limit    int      `json:"limit"`
	From     int64    `json:"from"`   // the window's start before
	To       int64    `json:"to"`     // and after
	Keep     []int64  `json:"keep"`   // system and developer messages that stay in sight
	Groups   int      `json:"groups"` // how many groups left
	Tokens   int      `json:"tokens"` // what they counted
	Summary  *Summary `json:"summary,omitempty"`
}

// Kind is window_moved.
func (WindowMoved) Kind() string { return "window_moved" }

func (c WindowMoved) normal() (Change, error) {
	w, err := Window{FromSeq: c.To, Keep: c.Keep, Summary: c.Summary}.normal()
	if err != nil {
		return nil, err
	}
	c.Keep, c.Summary = w.Keep, w.Summary
	if c.Strategy == "" {
		return c, nil
	}
	return c, oneOf("strategy", c.Strategy, Strategies())
}

func (c WindowMoved) fold(b *body, _ recordTime) error {
	b.windowHeld = b.windowHeld && c.narrows(b.st.Window)
	b.st.Window.FromSeq, b.st.Window.Keep = c.To, c.Keep
	if c.Summary != nil {
		b.st.Window.Summary = c.Summary
		b.st.Usage, b.st.Cost = b.st.Usage.Plus(c.Summary.Usage), plus(b.st.Cost, c.Summary.Cost)
	}
	if c.To == 0 {
		b.st.Window.Summary = nil
	}
	return nil
}

// narrows reports whether all that is shown afterwards was shown before.
func (c WindowMoved) narrows(before Window) bool {
	return c.To >= before.FromSeq && !slices.ContainsFunc(c.Keep, func(seq int64) bool {
		return seq < before.FromSeq && !slices.Contains(before.Keep, seq)
	})
}

// InboxTaken says that an inbox item was acted on. Writing it is what takes
// the item, so it happens once.
type InboxTaken struct {
	ItemID   string `json:"itemId"`
	ItemKind string `json:"itemKind"`
}

// Kind is inbox_taken.
func (InboxTaken) Kind() string { return "inbox_taken" }

func (c InboxTaken) normal() (Change, error) {
	cleanAll(&c.ItemID, &c.ItemKind)
	if c.ItemID == "" {
		return nil, invalid("itemId", "is missing")
	}
	return c, nil
}

func (c InboxTaken) fold(*body, recordTime) error { return nil }

// TailDiscarded marks changes of a refused action: they stay readable in the
// log and are never folded.
type TailDiscarded struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Kind is tail_discarded.
func (TailDiscarded) Kind() string { return "tail_discarded" }

func (c TailDiscarded) normal() (Change, error) {
	if c.From < 1 || c.To < c.From {
		return nil, invalid("tail_discarded", "%d to %d is no range", c.From, c.To)
	}
	return c, nil
}

func (c TailDiscarded) fold(b *body, t recordTime) error {
	if c.To >= t.seq {
		return invalid("tail_discarded", "it lies at %d, inside its own range up to %d", t.seq, c.To)
	}
	b.spans = cut(b.spans, c.From, c.To)
	return nil
}

// Span is a stretch of the log whose messages belong to the transcript. To 0
// is an open end.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to,omitempty"`
}

// Holds reports whether seq lies in one of the spans.
func Holds(spans []Span, seq int64) bool {
	for _, s := range spans {
		if seq >= s.From && (s.To == 0 || seq <= s.To) {
			return true
		}
	}
	return false
}

// checkSpans refuses spans that are not in order and apart.
func checkSpans(spans []Span) error {
	last := int64(0)
	for i, s := range spans {
		if s.From <= last || (s.To != 0 && s.To < s.From) || (s.To == 0 && i < len(spans)-1) {
			return invalid("spans", "%s is not a span after %d", s, last)
		}
		last = s.To
	}
	return nil
}

// cut takes a range out of spans.
func cut(spans []Span, from, to int64) []Span {
	var left []Span
	for _, s := range spans {
		if to < s.From || (s.To != 0 && from > s.To) {
			left = append(left, s)
			continue
		}
		if s.From < from {
			left = append(left, Span{From: s.From, To: from - 1})
		}
		if s.To == 0 || s.To > to {
			left = append(left, Span{From: to + 1, To: s.To})
		}
	}
	return left
}

// clip ends spans at seq.
func clip(spans []Span, seq int64) []Span {
	var left []Span
	for _, s := range spans {
		if s.From > seq {
			continue
		}
		if s.To == 0 || s.To > seq {
			s.To = seq
		}
		left = append(left, s)
	}
	return left
}

// String is from–to, with nothing after the dash for an open end.
func (s Span) String() string {
	if s.To == 0 {
		return fmt.Sprintf("%d–", s.From)
	}
	return fmt.Sprintf("%d–%d", s.From, s.To)
}
