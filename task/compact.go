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

// gauge measures the next request by the model's own count, where it has one.
func (r *Run) gauge(a asking) gauge {
	g := gauge{with: memory.With{Now: r.x.c.Clock}}
	if counter, ok := a.model.(llm.TokenCounter); ok {
		g.with.Count = func(m session.Message) int {
			if n, by := counter.CountTokens(m); by != "" {
				return n
			}
			return memory.Estimate(m)
		}
	}
	if known, ok := a.model.(llm.ContextLength); ok {
		g.capacity = known.ContextLength()
	}
	apart := a.request.System
	for _, t := range a.request.Tools {
		apart += t.Name + t.Description + string(t.Schema)
	}
	g.apart = g.with.Tokens(session.Message{Content: session.Text(apart)})
	g.tokens = g.apart
	for _, m := range a.request.Messages {
		g.tokens += g.with.Tokens(m)
	}
	if a.request.Params.MaxOutputTokens != nil && g.capacity > 0 {
		g.capacity = max(g.capacity-*a.request.Params.MaxOutputTokens, 1)
	}
	return g
}

// compactBeforeTurn makes room when the next request nearly fills the model's
// context. What fails leaves the window as it was.
func (r *Run) compactBeforeTurn(ctx context.Context) error {
	if !r.limits().compaction {
		return nil
	}
	a, err := r.asking(ctx)
	if err != nil {
		return nil //nolint:nilerr // the request says so itself
	}
	g := r.gauge(a)
	if g.ratio() < fullBeforeTurn {
		return nil
	}
	_, err = r.compact(ctx, a, g, int(afterTurn*float64(g.capacity)), true)
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

// compactBeforeContinuation makes room before a window, when the old one is
// rather full or has gone in circles.
func (r *Run) compactBeforeContinuation(ctx context.Context) error {
	l := r.limits()
	if !l.compaction {
		return nil
	}
	asked, err := r.asking(ctx)
	if err != nil {
		return nil //nolint:nilerr // the request says so itself
	}
	assessed, err := r.assessWindow(ctx)
	if err != nil {
		return err
	}
	g := r.gauge(asked)
	idle := assessed.stops >= stopsForCompaction
	if g.ratio() < l.ratio && !idle {
		return nil
	}
	window := r.state().Loop.Window
	err = r.append(ctx, move{changes: []session.Change{event("context_compaction_started", map[string]any{
		"continuationWindow": window, "contextRatio": g.ratio(), "thresholdRatio": l.ratio,
		"toolUseStopStreak": assessed.stops, "noMutation": idle, "tokensBefore": g.tokens,
	})}})
	if err != nil {
		return err
	}
	room := int(afterTurn * float64(g.capacity))
	if g.capacity == 0 || g.tokens < room {
		room = int(afterTurn * float64(g.tokens))
	}
	done, err := r.compact(ctx, asked, g, room, true, func(c compacted) session.Change {
		return event("context_compaction_completed", map[string]any{
			"continuationWindow": window, "tokensBefore": c.before, "tokensAfter": c.after, "removedMessages": c.removed,
		})
	})
	var failed *compactionError
	switch {
	case err == nil && done:
		return nil
	case err == nil:
		failed = &compactionError{errors.New("nothing could leave the window")}
	case !errors.As(err, &failed):
		return err
	}
	return r.append(ctx, move{changes: []session.Change{event("context_compaction_failed", map[string]any{
		"continuationWindow": window, "reason": failed.Error(), "tokensBefore": g.tokens,
	})}})
}

// makeRoom answers a provider that found the request too large.
func (p *turn) makeRoom(ctx context.Context, it *Iteration, a asking, cause error) (Response, error) {
	attempt := it.Counters.ContextRecoveries + 1
	g := p.r.gauge(a)
	told := func(name string, after int, reason string) session.Change {
		return event("context_capacity_recovery_"+name, map[string]any{
			"phase": it.Mode, "stepId": it.StepID, "attempt": attempt, "maxAttempts": maxContextRecoveries, "tokensBefore": g.tokens,
			"tokensAfter": after, "removedApproxTokens": g.tokens - after, "reason": reason, "providerError": firstChars(cause.Error(), maxErrorShown),
		})
	}
	if attempt > maxContextRecoveries {
		err := p.r.append(ctx, move{changes: []session.Change{told("failed", g.tokens, "no attempts are left")}})
		if err != nil {
			return nil, err
		}
		return nil, Stop(StopContext, cause)
	}
	it.Counters.ContextRecoveries = attempt
	err := p.r.append(ctx, move{
		changes: []session.Change{told("started", g.tokens, "the provider found the request too large")},
		state:   func(s *session.TaskState) { s.Steps.Counts = counters(it) },
	})
	if err != nil {
		return nil, err
	}
	room := int(afterTooLong * float64(g.capacity))
	if g.capacity == 0 || g.tokens < room {
		room = int(afterTooLong * float64(g.tokens))
	}
	done, err := p.r.compact(ctx, a, g, room, false, func(c compacted) session.Change { return told("completed", c.after, "") })
	if err != nil {
		return nil, err
	}
	it.Messages = p.r.session().WindowMessages()
	if !done {
		if err := p.r.append(ctx, move{changes: []session.Change{told("failed", g.tokens, "nothing could leave the window")}}); err != nil {
			return nil, err
		}
		return nil, Stop(StopContext, cause)
	}
	return Recovered{Messages: it.Messages}, nil
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
func (r *Run) compact(ctx context.Context, a asking, g gauge, room int, must bool, tell ...func(compacted) session.Change) (bool, error) {
	s := r.session()
	c := choose(s, room-g.apart, g.with.Tokens)
	if len(c.leaving) == 0 {
		return false, nil
	}
	moved := c.moved
	summary, spent, err := r.summarise(ctx, a, c, room-g.apart)
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
	changes := append([]session.Change{moved}, spent.changes...)
	for _, t := range tell {
		changes = append(changes, t(done))
	}
	now := millis(r.x.c.Clock())
	return true, r.append(ctx, move{changes: changes, state: func(s *session.TaskState) {
		if spent.state != nil {
			spent.state(s)
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
func (r *Run) summarise(ctx context.Context, a asking, c choice, room int) (session.Summary, move, error) {
	slack := room - c.tokens
	most := min(max(int(summaryShare*float64(slack)), minSummary), maxSummary)
	s := r.session()
	from := c.leaving[0].Seq
	var lines []string
	if before := s.Window().Summary; before != nil {
		lines, from = append(lines, "Summary so far: "+before.Text), before.FromSeq
	}
	for _, m := range c.leaving {
		lines = append(lines, lineOf(m))
	}
	request := a.request
	request.Tools, request.ResponseFormat, request.System = nil, nil, summaryText
	request.Params.MaxOutputTokens = &most
	request.Messages = []session.Message{{
		ID: r.x.c.NewID(), Role: session.RoleUser, CreatedAt: r.x.c.Clock(), Content: session.Text(strings.Join(lines, "\n\n")),
	}}
	request.Inference = r.state().Loop.LifetimeTurns
	a.request = request
	response, err := r.ask(ctx, a)
	if err == nil && response.Content.Blank() {
		err = errors.New("the summary is blank")
	}
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, session.ErrFenced) {
			return session.Summary{}, move{}, err
		}
		return session.Summary{}, move{}, &compactionError{fmt.Errorf("summarise %d messages: %w", len(c.leaving), err)}
	}
	said := r.heard(a, response, "")
	usage, count := r.counted(said)
	return session.Summary{
		Text: strings.TrimSpace(said.message.Content.Text()), FromSeq: from, ToSeq: c.leaving[len(c.leaving)-1].Seq,
		Model: said.model, Usage: said.usage, Cost: said.cost, CreatedAt: r.x.c.Clock(),
	}, move{changes: usage, state: count}, nil
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
