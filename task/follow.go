package task

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

const (
	maxEventText  = 2_000
	usageOfEpoch  = 50 // calls after which the counts of use are halved
	maxErrorShown = 500
)

// Append adds what follows for the task from the loop's changes, and writes
// both at once.
func (w *work) Append(ctx context.Context, s session.Session) (session.Session, error) {
	booked := w.booked
	w.r.setLive(&s)
	err := w.follow(ctx)
	if err == nil {
		s = w.r.session()
		s, err = w.journal.Append(ctx, s)
	}
	if err != nil {
		w.booked = booked
		return s, err
	}
	w.booked = s.Seq()
	w.r.setLive(&s)
	return s, nil
}

// follow adds what follows for the task from the changes of the live session
// that it has not looked at.
func (w *work) follow(ctx context.Context) error {
	s := w.r.session()
	m := edit{changes: w.events}
	for _, record := range session.Unsaved(s) {
		if record.Seq > w.booked {
			m = m.and(w.after(s, record.Change))
		}
	}
	if err := w.r.append(ctx, m); err != nil {
		return err
	}
	w.events, w.booked = nil, w.r.session().Seq()
	return nil
}

// after returns what follows from one change of the loop.
func (w *work) after(s session.Session, c session.Change) edit {
	switch c := c.(type) {
	case session.InferenceAnswered:
		w.answer = &c
	case session.MessageAdded:
		if w.answer != nil && c.Message.Role == session.RoleAssistant && c.Message.StepID == w.answer.StepID {
			answer := *w.answer
			w.answer = nil
			return w.answered(s, answer, c.Message)
		}
		if r := c.Message.ToolResult; r != nil {
			w.results[r.CallID] = *r
		}
	case session.ToolStarted:
		if !w.started[c.CallID] { // not by a process that ended
			w.started[c.CallID] = true
			return w.callStarted(s, c.CallID)
		}
	case session.ToolFinished:
		return w.callFinished(s, c).and(countSpent(c.Spent))
	case session.ExecutionWaiting:
		return edit{row: waiting(s)}
	}
	return edit{}
}

// spent is what an answer used.
type spent struct {
	model string
	usage session.Usage
	cost  session.Cost
}

// countSpent counts what a subagent used.
func countSpent(by *session.Spent) edit {
	if by == nil {
		return edit{}
	}
	return edit{state: func(s *session.TaskState) {
		s.Usage.Input += by.Usage.Input
		s.Usage.Output += by.Usage.Output
		s.Usage.Cost += by.Cost.Dollars()
	}}
}

// counted returns a turn in usage and counts.
func (r *Run) counted(a spent) edit {
	a.cost = max(a.cost, 0)
	for _, n := range []*int64{&a.usage.Input, &a.usage.Output, &a.usage.CacheRead, &a.usage.CacheWrite} {
		*n = max(*n, 0)
	}
	dollars := a.cost.Dollars()
	m := edit{state: func(s *session.TaskState) {
		s.Loop.Iterations++
		s.Loop.Turns++
		s.Loop.LifetimeTurns++
		s.Usage.Input += a.usage.Input
		s.Usage.Output += a.usage.Output
		s.Usage.Cost += dollars
	}}
	if a.usage == (session.Usage{}) && a.cost == 0 {
		return m
	}
	after := r.state()
	m.state(&after)
	provider, id, named := strings.Cut(a.model, "/")
	if !named {
		provider, id = "", a.model
	}
	m.changes = []session.Change{event("llm_usage", llmUsage{
		ProviderType: provider, ModelID: id,
		Delta:  usageDelta{Input: a.usage.Input, Output: a.usage.Output, Cached: a.usage.CacheRead, CacheWrite: a.usage.CacheWrite, Cost: dollars},
		Totals: usageTotals(after.Usage),
	})}
	return m
}

// answered counts an answer and keeps what was said. A reminder that the
// request carried is done with.
func (w *work) answered(s session.Session, a session.InferenceAnswered, m session.Message) edit {
	text := m.Content.Text()
	output := w.r.joinedAnswer(s, text, m)
	said := strings.TrimSpace(text) != ""
	return w.r.counted(spent{a.Model, a.Usage, a.Cost}).and(edit{state: func(s *session.TaskState) {
		w.counting(func(c *session.StepCounts) {
			c.Iterations++
			c.LLMCalls++
			if c.Empty++; said || len(m.ToolCalls) > 0 {
				c.Empty = 0
			}
		})(s)
		s.Checklist.ReminderArmed = false
		if !said {
			return
		}
		s.Said.Answer, s.Said.Shown = &output, &output
		if w.step.Kind != "verification" {
			s.Said.Result = &output
		}
	}})
}

// joinedAnswer returns an answer with what came before the cut that it
// continues from.
func (r *Run) joinedAnswer(s session.Session, text string, m session.Message) string {
	before := stateOf(s).Said.Shown
	for i := s.Len() - 1; i >= 0 && before != nil; i-- {
		last := s.Message(i)
		if last.Seq >= m.Seq && m.Seq > 0 || last.ID == m.ID {
			continue
		}
		if last.Role != session.RoleUser || last.ExecutionID != m.ExecutionID {
			break
		}
		if last.Content.Text() == cutOffText {
			return *before + text
		}
	}
	return text
}

// callOf finds a call by its id.
func callOf(s session.Session, id string) session.ToolCall {
	for i := s.Len() - 1; i >= 0; i-- {
		for _, call := range s.Message(i).ToolCalls {
			if call.ID == id {
				return call
			}
		}
	}
	return session.ToolCall{ID: id}
}

func (w *work) callStarted(s session.Session, id string) edit {
	call := callOf(s, id)
	t := w.r.specOf(call.Name)
	return edit{
		changes: []session.Change{event("tool_call", toolCalled{CallID: id, Tool: call.Name, Input: call.Arguments})},
		state: countTools(func(c *session.BudgetCounters) {
			c.ToolCalls++
			if t.Effects.Has(tool.Network) && strings.Contains(call.Name, "search") {
				c.WebSearchCalls++
			}
		}),
	}
}

// countTools alters the counts of the task's calls.
func countTools(alter func(*session.BudgetCounters)) func(*session.TaskState) {
	return func(s *session.TaskState) {
		counts := orValue(s.Tools.Counts, session.BudgetCounters{})
		alter(&counts)
		s.Tools.Counts = &counts
	}
}

// callFinished returns what follows from a call's result: of one that ran, of
// one that a person answered, and of one that did not run.
func (w *work) callFinished(s session.Session, c session.ToolFinished) edit {
	call, result := callOf(s, c.CallID), w.results[c.CallID]
	answer, responded := w.replies[c.CallID]
	ran := w.started[c.CallID] && !c.Synthetic
	switch {
	case ran:
		return w.callEnded(call, result)
	case responded && (answer.Action == session.RespondAnswer || answer.Action == session.RespondResult):
		return w.callStarted(s, c.CallID).and(w.callEnded(call, result))
	case responded && answer.Action != session.RespondApprove:
		return w.callDenied(call, answer)
	case w.again[c.CallID]:
		return edit{state: countTools(func(c *session.BudgetCounters) { c.DuplicatesBlocked++ })}
	case w.silent[c.CallID], c.Synthetic && result.Content != session.UnknownOutcome:
		return edit{}
	}
	return edit{changes: []session.Change{event("tool_error", toolFailed{CallID: call.ID, Tool: call.Name, Input: call.Arguments, Error: result.Content})}}
}

// callDenied tells of a call that a person did not allow, and pauses the step
// unless that person wants it to go on.
func (w *work) callDenied(call session.ToolCall, answer reply) edit {
	why, pause := deniedByUserText, userDeniedText
	switch answer.Action {
	case session.RespondExpire:
		why, pause = approvalOverText, approvalOverText
	case session.RespondCancel:
		why, pause = approvalEndedText, ""
	}
	m := edit{changes: []session.Change{blockedEvent(call, session.PermissionReason{Type: "user", Summary: why})}}
	if pause != "" && !answer.GoOn && !answer.kept {
		m.state = w.counting(func(c *session.StepCounts) { c.Pause = pause })
	}
	return m
}

func blockedEvent(call session.ToolCall, why session.PermissionReason) session.Change {
	return event("tool_blocked", toolBlocked{Tool: call.Name, CallID: call.ID, Reason: why})
}

// callEnded returns what follows from the result of a call that ran.
func (w *work) callEnded(call session.ToolCall, result session.ToolResult) edit {
	now := millis(w.r.x.c.Clock())
	w.mu.Lock()
	seen, returned := w.ran[call.ID]
	w.mu.Unlock()
	if !returned && w.started[call.ID] {
		seen.err = context.DeadlineExceeded // it was given up
	}
	c := ended{call: call, spec: w.r.specOf(call.Name), result: result, existed: seen.existed}
	var m edit
	var failed *disabling
	if result.IsError {
		failed = failing(w.r.state().Tools, c.spec, hostOf(call), seen.err, result.Content, now)
		told := toolFailed{CallID: call.ID, Tool: call.Name, Input: call.Arguments, Error: firstChars(result.Content, maxEventText)}
		if failed.off {
			told.Disabled, told.DisabledScope = true, failed.entry.Scope
			m.row = func(row *session.TaskRow) { row.ToolDisabledScope = failed.entry.Scope }
		}
		m.changes = append(m.changes, event("tool_error", told))
	} else {
		m.changes = append(m.changes, event("tool_result", toolAnswered{CallID: call.ID, Tool: call.Name, Result: firstChars(result.Content, maxEventText)}))
	}
	if wrote, ok := w.r.fileEvent(c); ok {
		m.changes = append(m.changes, wrote)
	}
	m.state = func(s *session.TaskState) {
		s.Tools.Started = s.Tools.Started.Without(call.ID)
		remember(s, c, now)
		if failed != nil {
			failed.apply(s)
			return
		}
		track(s, c, w.id, now)
		for _, key := range failureKeys(c.spec, hostOf(call)) {
			s.Tools.Failures = s.Tools.Failures.Without(key)
		}
	}
	return m
}

// ended is a call that ran, with its result.
type ended struct {
	call    session.ToolCall
	spec    tool.Spec
	result  session.ToolResult
	existed bool // the file it is about, before it ran
}

// remember counts the use of a tool and keeps what it found.
func remember(s *session.TaskState, c ended, now int64) {
	t := &s.Tools
	name := c.call.Name
	n, _ := t.Calls.Get(name)
	t.Calls = t.Calls.With(name, n+1)
	if !c.result.IsError {
		n, _ := t.Successes.Get(name)
		t.Successes = t.Successes.With(name, n+1)
		if !ownTool(name) {
			t.Results = append(slices.Clone(t.Results), session.ToolMemory{Tool: name, Summary: firstChars(c.result.Content, maxEventText), At: now})
		}
	}
	if t.SinceHalved++; t.SinceHalved >= usageOfEpoch {
		t.Calls, t.Successes = halved(t.Calls), halved(t.Successes)
		t.SinceHalved = 0
		t.Halvings++
	}
	if c.spec.Effects.Has(tool.Network) {
		rememberPage(t, c, now)
	}
}

// halved returns half of each count and none that came to nothing.
func halved(counts session.Pairs[int]) session.Pairs[int] {
	var kept session.Pairs[int]
	for name, n := range counts.All() {
		if n /= 2; n > 0 {
			kept = kept.With(name, n)
		}
	}
	return kept
}

// rememberPage keeps which page was seen, or could not be read.
func rememberPage(t *session.TaskTools, c ended, now int64) {
	kind := "web_fetch"
	address := argument(c.call, "url", "uri")
	if address == "" {
		kind, address = "web_search", argument(c.call, "query", "q")
	}
	switch {
	case c.result.IsError:
		t.PageFailure = &session.PageFailed{At: now, Tool: c.call.Name, URL: address, Error: firstChars(c.result.Content, maxErrorShown)}
	case address != "":
		title, published := describePage(c.result.Content)
		t.Pages = append(slices.Clone(t.Pages), session.Page{Tool: kind, URL: address, Title: title, Published: published, At: now})
	}
}

// describePage returns the title and the day of publication that the lines before
// a page's body give, "" for none.
func describePage(content string) (title, published string) {
	for line := range strings.Lines(content) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case ok && name == "Title":
			title = value
		case ok && name == "Published":
			published = value
		case !ok || name != "Status" && name != "URL":
			return title, published
		}
	}
	return title, published
}
