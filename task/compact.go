package task

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

// How full the window may be, and how far it is emptied, of what the model can
// take in.
const (
	fullBeforeTurn     = 0.85
	afterTurn          = 0.70
	afterTooLong       = 0.35
	stopsForCompaction = 6

	maxContextRecoveries = 2
)

// gauge measures a request to a model.
type gauge struct {
	with     memory.With
	capacity int // 0: not known
	tokens   int // of the whole request
	apart    int // of it, what is not messages
}

func (g gauge) ratio() float64 {
	if g.capacity == 0 {
		return 0
	}
	return float64(g.tokens) / float64(g.capacity)
}

// target returns how many tokens a share of the model's capacity is, or of the
// request where that is smaller or the capacity is not known.
func (g gauge) target(share float64) int {
	if room := int(share * float64(g.capacity)); g.capacity != 0 && g.tokens >= room {
		return room
	}
	return int(share * float64(g.tokens))
}

func (r *Run) gauge(model llm.Model, q llm.Request) gauge {
	with := memory.With{Now: r.x.c.Clock, Count: memory.CountBy(model)}
	size := with.Measure(model, q)
	return gauge{with: with, capacity: size.Room(), tokens: size.Tokens(), apart: size.Other}
}

// makeRoom compacts the window when the next request nearly fills the model's
// context, and before the first request of a window also where the one before
// was rather full or went in circles. What fails leaves the window as it was.
func (r *Run) makeRoom(ctx context.Context, model llm.Model, q llm.Request) error {
	if !r.limits().compaction {
		return nil
	}
	g := r.gauge(model, q)
	if first := r.newWindow; first {
		r.newWindow = false
		if done, err := r.compactForWindow(ctx, model, q, g); done || err != nil {
			return err
		}
	}
	if g.ratio() < fullBeforeTurn {
		return nil
	}
	_, err := r.compact(ctx, model, q, g, g.target(afterTurn), true)
	return unlessFailed(err)
}

// unlessFailed lets errors pass that are not about the summary.
func unlessFailed(err error) error {
	var failed *compactionError
	if errors.As(err, &failed) {
		return nil
	}
	return err
}

// compactForWindow makes room for a window whose predecessor was rather full or
// went in circles. True says that this was tried.
func (r *Run) compactForWindow(ctx context.Context, model llm.Model, q llm.Request, g gauge) (bool, error) {
	l, stops := r.limits(), r.idleStops
	idle := stops >= stopsForCompaction
	if g.ratio() < l.ratio && !idle {
		return false, nil
	}
	window := r.state().Loop.Window - 1 // the one that is over
	err := r.append(ctx, edit{changes: []session.Change{event("context_compaction_started", compactionStarted{
		Window: window, Ratio: g.ratio(), Threshold: l.ratio, Stops: stops, NoMutation: idle, TokensBefore: g.tokens,
	})}})
	if err != nil {
		return true, err
	}
	done, err := r.compact(ctx, model, q, g, g.target(afterTurn), true, func(c compacted) session.Change {
		return event("context_compaction_completed", compactionCompleted{
			Window: window, TokensBefore: c.before, TokensAfter: c.after, Removed: c.removed,
		})
	})
	var failed *compactionError
	switch {
	case err == nil && done:
		return true, nil
	case err == nil:
		failed = &compactionError{errors.New("nothing could leave the window")}
	case !errors.As(err, &failed):
		return true, err
	}
	return true, r.append(ctx, edit{changes: []session.Change{event("context_compaction_failed", compactionFailed{
		Window: window, Reason: failed.Error(), TokensBefore: g.tokens,
	})}})
}

// recoverContext compacts the window after a request that was too large.
func (w *work) recoverContext(ctx context.Context, cause error) error {
	r, attempt := w.r, w.counts().ContextRecoveries+1
	_, model, err := r.x.rt.Model(w.asked.Model)
	if err != nil {
		return stop(StopProvider, err)
	}
	g := r.gauge(model, w.asked)
	recovery := func(name string, after int, reason string) session.Change {
		return event("context_capacity_recovery_"+name, contextRecovery{
			Phase: w.mode, StepID: w.id, Attempt: attempt, MaxAttempts: maxContextRecoveries, TokensBefore: g.tokens,
			TokensAfter: after, Removed: g.tokens - after, Reason: reason, ProviderError: firstChars(cause.Error(), maxErrorShown),
		})
	}
	fails := func(reason string) error {
		if err := r.append(ctx, edit{changes: []session.Change{recovery("failed", g.tokens, reason)}}); err != nil {
			return err
		}
		return stop(StopContext, cause)
	}
	if attempt > maxContextRecoveries {
		return fails("no attempts are left")
	}
	err = r.append(ctx, edit{
		changes: []session.Change{recovery("started", g.tokens, "the provider found the request too large")},
		state:   w.counting(func(c *session.StepCounts) { c.ContextRecoveries = attempt }),
	})
	if err != nil {
		return err
	}
	done, err := r.compact(ctx, model, w.asked, g, g.target(afterTooLong), false, func(c compacted) session.Change { return recovery("completed", c.after, "") })
	if err == nil && !done {
		return fails("nothing could leave the window")
	}
	return err
}

// compacted is what a compaction came to.
type compacted struct{ before, after, removed int }

// compactionError is a summary that could not be had. The window is as it was.
type compactionError struct{ error }

func (e *compactionError) Unwrap() error { return e.error }

// compact moves the window so that the request fits into room tokens, as near
// as can be. What leaves is summarised; where must is false and there is no
// summary to be had, it leaves without one. False says that nothing could.
func (r *Run) compact(ctx context.Context, model llm.Model, q llm.Request, g gauge, room int, must bool, tell ...func(compacted) session.Change) (bool, error) {
	s := r.session()
	c := memory.Compact(s, room-g.apart, g.with, pathOf)
	if len(c.Leaving) == 0 {
		return false, nil
	}
	var counted edit
	g.with.Summarise = func(ctx context.Context, previous string, leaving []session.Message) (summary session.Summary, err error) {
		summary, counted, err = r.summarise(ctx, model, q, previous, leaving, room-g.apart-c.Tokens)
		return summary, err
	}
	if err := c.Summarise(ctx, s, g.with); err != nil {
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case errors.Is(err, session.ErrFenced):
			return false, err
		case must:
			return false, &compactionError{err}
		}
		c.Moved.Strategy = session.PruneTokens
	}
	after := c.Tokens + g.apart
	if c.Moved.Summary != nil {
		after += g.with.Tokens(session.Message{Content: session.Text(c.Moved.Summary.Text)})
	}
	done := compacted{before: g.tokens, after: after, removed: len(c.Leaving)}
	m := edit{changes: []session.Change{c.Moved}}.and(counted)
	for _, t := range tell {
		m.changes = append(m.changes, t(done))
	}
	now := millis(r.x.c.Clock())
	return true, r.append(ctx, m.and(edit{state: func(s *session.TaskState) {
		s.Loop.Compactions++
		s.Loop.CompactedAt, s.Loop.TokensBefore, s.Loop.TokensAfter = now, int64(done.before), int64(done.after)
	}}))
}

const (
	minSummary     = 800
	maxSummary     = 4000
	summaryShare   = 0.6
	maxSummaryLine = 2_000 // characters of a message that are summarised
)

// summarise asks the model what is worth keeping of what leaves. It is a turn
// like any other. Slack is how many tokens what stays leaves free.
func (r *Run) summarise(ctx context.Context, model llm.Model, q llm.Request, previous string, leaving []session.Message, slack int) (session.Summary, edit, error) {
	most := min(max(int(summaryShare*float64(slack)), minSummary), maxSummary)
	var lines []string
	if previous != "" {
		lines = append(lines, "Summary so far: "+previous)
	}
	for _, m := range leaving {
		lines = append(lines, lineOf(m))
	}
	q.Tools, q.ResponseFormat, q.System, q.Params.MaxOutputTokens = nil, nil, memory.SummaryQuestion, &most
	q.Messages = []session.Message{{
		ID: r.x.c.NewID(), Role: session.RoleUser, CreatedAt: r.x.c.Clock(), Content: session.Text(strings.Join(lines, "\n\n")),
	}}
	response, err := r.ask(ctx, model, q)
	if err != nil {
		return session.Summary{}, edit{}, err
	}
	return session.Summary{
		Text: strings.TrimSpace(response.Content.Text()), Model: response.Model, Usage: response.Usage, Cost: max(response.Cost, 0), CreatedAt: r.x.c.Clock(),
	}, r.counted(spent{response.Model, response.Usage, response.Cost}), nil
}

// lineOf is a message as a summary is made of it.
func lineOf(m session.Message) string {
	text := m.Content.Text()
	for _, call := range m.ToolCalls {
		text += fmt.Sprintf("\n[called %s with %s]", call.Name, call.Arguments)
	}
	if m.ToolResult != nil {
		text = fmt.Sprintf("[%s answered] %s", m.ToolResult.ToolName, m.ToolResult.Content)
	}
	return string(m.Role) + ": " + firstChars(strings.TrimSpace(text), maxSummaryLine)
}
