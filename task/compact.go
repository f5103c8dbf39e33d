package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	pathShare          = 0.15 // of the room, for what names files in use
	pathMessages       = 4    // the last messages, whose files are in use
	stopsForCompaction = 6

	maxContextRecoveries = 2
)

// gauge measures a window.
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

// gauge measures a request by the model's own count, where it has one.
func (r *Run) gauge(model llm.Model, q llm.Request) gauge {
	g := gauge{with: memory.With{Now: r.x.c.Clock}}
	if counter, ok := model.(llm.TokenCounter); ok {
		g.with.Count = func(m session.Message) int {
			if n, by := counter.CountTokens(m); by != "" {
				return n
			}
			return memory.Estimate(m)
		}
	}
	if known, ok := model.(llm.ContextLength); ok {
		g.capacity = known.ContextLength()
	}
	apart := q.System
	for _, t := range q.Tools {
		apart += t.Name + t.Description + string(t.Schema)
	}
	g.apart = g.with.Tokens(session.Message{Content: session.Text(apart)})
	g.tokens = g.apart
	for _, m := range q.Messages {
		g.tokens += g.with.Tokens(m)
	}
	if q.Params.MaxOutputTokens != nil && g.capacity > 0 {
		g.capacity = max(g.capacity-*q.Params.MaxOutputTokens, 1)
	}
	return g
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
	_, err := r.compact(ctx, model, q, g, int(afterTurn*float64(g.capacity)), true)
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
	room := int(afterTurn * float64(g.capacity))
	if g.capacity == 0 || g.tokens < room {
		room = int(afterTurn * float64(g.tokens))
	}
	done, err := r.compact(ctx, model, q, g, room, true, func(c compacted) session.Change {
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
	room := int(afterTooLong * float64(g.capacity))
	if g.capacity == 0 || g.tokens < room {
		room = int(afterTooLong * float64(g.tokens))
	}
	done, err := r.compact(ctx, model, w.asked, g, room, false, func(c compacted) session.Change { return recovery("completed", c.after, "") })
	if err == nil && !done {
		return fails("nothing could leave the window")
	}
	return err
}

// compacted is what a compaction came to.
type compacted struct{ before, after, removed int }

// compactionError is a summary that could not be had. The window is as it was.
type compactionError struct{ err error }

func (e *compactionError) Error() string { return e.err.Error() }
func (e *compactionError) Unwrap() error { return e.err }

// compact moves the window so that the request fits into room tokens, as near
// as can be. What leaves is summarised; where must is false and there is no
// summary to be had, it leaves without one. False says that nothing could.
func (r *Run) compact(ctx context.Context, model llm.Model, q llm.Request, g gauge, room int, must bool, tell ...func(compacted) session.Change) (bool, error) {
	s := r.session()
	c := choose(s, room-g.apart, g.with.Tokens)
	if len(c.leaving) == 0 {
		return false, nil
	}
	moved := c.moved
	summary, counted, err := r.summarise(ctx, model, q, c, room-g.apart)
	switch {
	case err == nil:
		moved.Strategy, moved.Summary = session.PruneSummary, &summary
	case must:
		return false, err
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	default:
		moved.Strategy = session.PruneTokens
	}
	after := c.tokens + g.apart
	if moved.Summary != nil {
		after += g.with.Tokens(session.Message{Content: session.Text(moved.Summary.Text)})
	}
	done := compacted{before: g.tokens, after: after, removed: len(c.leaving)}
	changes := append([]session.Change{moved}, counted.changes...)
	for _, t := range tell {
		changes = append(changes, t(done))
	}
	now := millis(r.x.c.Clock())
	return true, r.append(ctx, edit{changes: changes, state: func(s *session.TaskState) {
		if counted.state != nil {
			counted.state(s)
		}
		s.Loop.Compactions++
		s.Loop.CompactedAt, s.Loop.TokensBefore, s.Loop.TokensAfter = now, int64(done.before), int64(done.after)
	}})
}

// choice is what leaves a window and what stays.
type choice struct {
	moved   session.WindowMoved
	leaving []session.Message
	tokens  int // of what stays
}

// choose keeps the first message, the newest group, then what names files in
// use, up to a share of the room, then the newest of the rest. A call stays
// with its results.
func choose(s session.Session, room int, count func(session.Message) int) choice {
	shown := s.WindowMessages()
	groups := session.Groups(shown)
	cost := make([]int, len(groups))
	for i, g := range groups {
		for _, m := range shown[g.From:g.To] {
			cost[i] += count(m)
		}
	}
	stays := make([]bool, len(groups))
	left := room
	keep := func(i int) {
		if !stays[i] {
			stays[i] = true
			left -= cost[i]
		}
	}
	for i, g := range groups {
		m := shown[g.From]
		if i == 0 || i == len(groups)-1 || g.Open || m.Role == session.RoleSystem || m.Role == session.RoleDeveloper {
			keep(i)
		}
	}
	share, recent := int(pathShare*float64(room)), max(0, len(shown)-pathMessages)
	inUse := pathsIn(shown[recent:])
	for i := len(groups) - 1; i >= 0; i-- {
		if !stays[i] && groups[i].To <= recent && cost[i] <= min(share, left) && names(shown[groups[i].From:groups[i].To], inUse) {
			share -= cost[i]
			keep(i)
		}
	}
	from := len(groups)
	for from > 0 && (stays[from-1] || cost[from-1] <= left) {
		from--
		keep(from)
	}
	return leave(s, shown, groups, stays, from, cost)
}

// leave is the change that shows the groups that stay and everything from one
// on.
func leave(s session.Session, shown []session.Message, groups []session.Group, stays []bool, from int, cost []int) choice {
	window := s.Window()
	c := choice{moved: session.WindowMoved{Limit: len(groups), From: window.FromSeq, Keep: []int64{}}}
	c.moved.To = s.Seq() + 1
	if from < len(groups) {
		c.moved.To = shown[groups[from].From].Seq
	}
	for i, g := range groups {
		if stays[i] {
			c.tokens += cost[i]
			if i < from {
				for _, m := range shown[g.From:g.To] {
					c.moved.Keep = append(c.moved.Keep, m.Seq)
				}
			}
			continue
		}
		c.leaving = append(c.leaving, shown[g.From:g.To]...)
		c.moved.Groups++
		c.moved.Tokens += cost[i]
	}
	return c
}

// pathsIn are the files that the calls of some messages are about.
func pathsIn(messages []session.Message) []string {
	var paths []string
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			if p := pathOf(call); p != "" && !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// names reports messages that speak of one of some files.
func names(messages []session.Message, paths []string) bool {
	for _, m := range messages {
		text := m.Content.Text()
		if m.ToolResult != nil {
			text += m.ToolResult.Content
		}
		for _, call := range m.ToolCalls {
			text += string(call.Arguments)
		}
		if slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(text, p) }) {
			return true
		}
	}
	return false
}

const (
	minSummary     = 800
	maxSummary     = 4000
	summaryShare   = 0.6
	maxSummaryLine = 2_000 // characters of a message that are summarised
)

// summarise asks the model what is worth keeping of what leaves. It is a turn
// like any other.
func (r *Run) summarise(ctx context.Context, model llm.Model, q llm.Request, c choice, room int) (session.Summary, edit, error) {
	slack := room - c.tokens
	most := min(max(int(summaryShare*float64(slack)), minSummary), maxSummary)
	from := c.leaving[0].Seq
	var lines []string
	if before := r.session().Window().Summary; before != nil {
		lines, from = append(lines, "Summary so far: "+before.Text), before.FromSeq
	}
	for _, m := range c.leaving {
		lines = append(lines, lineOf(m))
	}
	q.Tools, q.ResponseFormat, q.System, q.Params.MaxOutputTokens = nil, nil, summaryText, &most
	q.Messages = []session.Message{{
		ID: r.x.c.NewID(), Role: session.RoleUser, CreatedAt: r.x.c.Clock(), Content: session.Text(strings.Join(lines, "\n\n")),
	}}
	response, err := r.ask(ctx, model, q)
	if err == nil && response.Content.Blank() {
		err = errors.New("the summary is blank")
	}
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, session.ErrFenced) {
			return session.Summary{}, edit{}, err
		}
		return session.Summary{}, edit{}, &compactionError{fmt.Errorf("summarise %d messages: %w", len(c.leaving), err)}
	}
	return session.Summary{
		Text: strings.TrimSpace(response.Content.Text()), FromSeq: from, ToSeq: c.leaving[len(c.leaving)-1].Seq,
		Model: response.Model, Usage: response.Usage, Cost: max(response.Cost, 0), CreatedAt: r.x.c.Clock(),
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
