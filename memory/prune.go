// Package memory decides which part of a session the model sees. It knows no
// store, and of a model only how many tokens it takes in: callers pass functions
// for what it needs of them.
package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// With holds what pruning needs besides the session.
type With struct {
	// Now tells the time; nil: time.Now.
	Now func() time.Time
	// Count counts the tokens of a message; nil: Estimate.
	Count func(session.Message) int
	// Index embeds messages that leave the window, so that Recall finds them by
	// meaning. Only the strategy vector_store needs it.
	Index func(ctx context.Context, leaving []session.Message) error
	// Summarise writes one summary of the previous summary, if any, and the
	// messages that leave the window. Only the strategy summary needs it.
	Summarise func(ctx context.Context, previous string, leaving []session.Message) (session.Summary, error)
}

// Prune moves the start of the window and returns the new session; nothing is
// deleted. The window only shrinks: if it is within the limit, the same session
// is returned. Open groups, a running execution and everything after them
// stay, whatever the limit; with a limit of zero or less nothing else stays.
// After an error the session is unchanged.
func Prune(ctx context.Context, s session.Session, strategy session.Strategy, limit int, with With) (session.Session, error) {
	shown := s.MessagesFrom(s.Window().FromSeq)
	groups := session.Groups(shown)
	var keep int
	switch strategy {
	case session.PruneAll:
		return s, nil
	case session.PruneSliding, session.PruneSummary, session.PruneVector:
		keep = max(limit, 0)
	case session.PruneTokens:
		keep = countFitting(s, shown, groups, limit, with.Tokens)
	default:
		return s, &session.InvalidError{Field: "strategy", Reason: fmt.Sprintf("%q is not one of %v", strategy, session.Strategies())}
	}
	return drop(ctx, s, strategy, limit, with, shown, groups, len(groups)-keep)
}

// Fit moves the window until it fits into limit tokens, or as close to that as
// possible: the running execution and open groups stay whole.
func Fit(ctx context.Context, s session.Session, limit int, with With) (session.Session, error) {
	shown := s.MessagesFrom(s.Window().FromSeq)
	groups := session.Groups(shown)
	keep := countFitting(s, shown, groups, limit, with.Tokens)
	return drop(ctx, s, session.PruneTokens, limit, with, shown, groups, len(groups)-keep)
}

// drop moves the window past the first n groups, but not past an open group or
// the running execution.
func drop(ctx context.Context, s session.Session, strategy session.Strategy, limit int, with With, shown []session.Message, groups []session.Group, n int) (session.Session, error) {
	running := ""
	if s.Running() {
		running = s.Execution().ID
	}
	isRunning := func(m session.Message) bool { return running != "" && m.ExecutionID == running }
	for i, g := range groups[:max(n, 0)] {
		if g.Open || slices.ContainsFunc(shown[g.From:g.To], isRunning) {
			n = i
			break
		}
	}
	if n <= 0 {
		return s, nil
	}
	return move(ctx, s, strategy, limit, with, shown, groups[:n])
}

func move(ctx context.Context, s session.Session, strategy session.Strategy, limit int, with With, shown []session.Message, leaving []session.Group) (session.Session, error) {
	window := s.Window()
	end := leaving[len(leaving)-1].To
	to := s.Seq() + 1
	if end < len(shown) {
		to = shown[end].Seq
	}
	moved := session.WindowMoved{Strategy: strategy, Limit: limit, From: window.FromSeq, To: to, Keep: window.Keep, Groups: len(leaving)}
	for _, m := range shown[:end] {
		moved.Tokens += with.Tokens(m)
		if alwaysShown(m) {
			moved.Keep = append(moved.Keep, m.Seq)
		}
	}
	if strategy == session.PruneVector {
		if with.Index == nil {
			return s, &session.UnsupportedError{Store: "this call", Ability: "the strategy vector_store without an embedder"}
		}
		if err := with.Index(ctx, shown[:end]); err != nil {
			return s, fmt.Errorf("index %d messages: %w", end, err)
		}
	}
	if strategy == session.PruneSummary {
		summary, err := summarise(ctx, window, shown[:end], with)
		if err != nil {
			return s, err
		}
		moved.Summary = &summary
	}
	now := time.Now
	if with.Now != nil {
		now = with.Now
	}
	return s.With(now(), moved)
}

// alwaysShown reports whether a message is shown wherever the window starts.
func alwaysShown(m session.Message) bool {
	return m.Role == session.RoleSystem || m.Role == session.RoleDeveloper
}

func summarise(ctx context.Context, window session.Window, leaving []session.Message, with With) (session.Summary, error) {
	if with.Summarise == nil {
		return session.Summary{}, &session.UnsupportedError{Store: "this call", Ability: "the strategy summary without a model"}
	}
	previous := ""
	from := leaving[0].Seq
	if window.Summary != nil {
		previous, from = window.Summary.Text, window.Summary.FromSeq
	}
	summary, err := with.Summarise(ctx, previous, leaving)
	if err != nil {
		return session.Summary{}, fmt.Errorf("summarise %d messages: %w", len(leaving), err)
	}
	if strings.TrimSpace(summary.Text) == "" {
		return session.Summary{}, &session.InvalidError{Field: "summary", Reason: "the model's answer is blank"}
	}
	if len(summary.Text) > maxSummary {
		return session.Summary{}, &session.InvalidError{Field: "summary", Reason: fmt.Sprintf("the model's answer has %d bytes, more than %d: ask for a shorter one in summaryPrompt", len(summary.Text), maxSummary)}
	}
	summary.FromSeq, summary.ToSeq = from, leaving[len(leaving)-1].Seq
	return summary, nil
}

// maxSummary bounds a summary, in bytes, because it is sent with every request.
const maxSummary = 64 << 10

// summaryFrame counts the tokens of the sentence that introduces a summary.
const summaryFrame = 16

// countFitting counts how many of the last groups fit in limit tokens, together
// with the summary and the messages that are always shown.
func countFitting(s session.Session, shown []session.Message, groups []session.Group, limit int, count func(session.Message) int) int {
	window := s.Window()
	left := limit
	if window.Summary != nil {
		left -= summaryFrame + count(session.Message{Content: session.Text(window.Summary.Text)})
	}
	for _, m := range s.All() {
		if s.Shown(m.Seq) && (m.Seq < window.FromSeq || alwaysShown(m)) {
			left -= count(m)
		}
	}
	for i, g := range slices.Backward(groups) {
		for _, m := range shown[g.From:g.To] {
			if !alwaysShown(m) {
				left -= count(m)
			}
		}
		if left < 0 {
			return len(groups) - 1 - i
		}
	}
	return len(groups)
}

// Tokens counts a message with Count, or estimates.
func (w With) Tokens(m session.Message) int {
	if w.Count != nil {
		return w.Count(m)
	}
	return Estimate(m)
}
