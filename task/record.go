package task

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

const (
	maxResult     = 256 << 10 // bytes of a result that are kept and shown
	maxEventText  = 2_000
	usageOfEpoch  = 50 // calls after which the counts of use are halved
	maxErrorShown = 500
)

// resultMessage is a call's result as the transcript keeps it.
func (r *Run) resultMessage(stepID string, call session.ToolCall, result tool.Result, synthetic bool) session.Change {
	content := result.Content
	if len(content) > maxResult {
		kept := strings.ToValidUTF8(content[:maxResult], "")
		content = fmt.Sprintf(cutResultText, kept, len(kept), len(content))
	}
	return session.MessageAdded{Message: session.Message{
		ID: r.x.c.NewID(), Role: session.RoleTool, StepID: stepID, Trace: true,
		ToolResult: &session.ToolResult{CallID: call.ID, ToolName: call.Name, Content: content, IsError: result.IsError, Synthetic: synthetic},
	}}
}

// record writes the result of a call that ran, with all that follows from it,
// at once.
func (r *Run) record(ctx context.Context, it *Iteration, c running) error {
	return r.append(ctx, r.ending(it.StepID, c))
}

// ending is the move by which a call of a step ends.
func (r *Run) ending(stepID string, c running) move {
	now := millis(r.x.c.Clock())
	changes := []session.Change{r.resultMessage(stepID, c.call, c.result, false)}
	var failed *disabling
	if c.result.IsError {
		state := r.state()
		failed = failing(state.Tools, c.tool, c.err, c.result.Content, now)
		told := map[string]any{"callId": c.call.ID, "tool": c.call.Name, "input": c.call.Arguments, "error": firstChars(c.result.Content, maxEventText)}
		if failed.off {
			told["disabled"], told["disabledScope"] = true, failed.entry.Scope
		}
		changes = append(changes, event("tool_error", told))
	} else {
		changes = append(changes, event("tool_result", map[string]any{
			"callId": c.call.ID, "tool": c.call.Name, "result": firstChars(c.result.Content, maxEventText),
		}))
	}
	if wrote, ok := r.fileEvent(c); ok {
		changes = append(changes, wrote)
	}
	m := move{changes: changes, state: func(s *session.TaskState) {
		s.Tools.Started = s.Tools.Started.Without(c.call.ID)
		remember(s, c, now)
		if failed != nil {
			failed.apply(s)
			return
		}
		track(s, c, stepID, now)
		s.Tools.Failures = s.Tools.Failures.Without(c.tool.Spec().Name).Without(providerKey(c.tool))
	}}
	if failed != nil && failed.off {
		m.row = func(row *session.TaskRow) { row.ToolDisabledScope = failed.entry.Scope }
	}
	return m
}

// remember counts the use of a tool and keeps what it found.
func remember(s *session.TaskState, c running, now int64) {
	t := &s.Tools
	name := c.call.Name
	n, _ := t.Calls.Get(name)
	t.Calls = t.Calls.With(name, n+1)
	if !c.result.IsError {
		n, _ := t.Successes.Get(name)
		t.Successes = t.Successes.With(name, n+1)
		if !ownTool(name) {
			t.Results = append(t.Results, session.ToolMemory{Tool: name, Summary: firstChars(c.result.Content, maxEventText), At: now})
		}
	}
	if t.SinceHalved++; t.SinceHalved >= usageOfEpoch {
		t.Calls, t.Successes = halved(t.Calls), halved(t.Successes)
		t.SinceHalved = 0
		t.Halvings++
	}
	if c.tool.Effects.Has(permission.Network) {
		rememberPage(t, c, now)
	}
}

// halved has half of each count and none that came to nothing.
func halved(counts session.Pairs[int]) session.Pairs[int] {
	var kept session.Pairs[int]
	for name, n := range counts.All() {
		if n /= 2; n > 0 {
			kept = kept.With(name, n)
		}
	}
	return kept
}

// rememberPage keeps which page was seen, or could not be had.
func rememberPage(t *session.TaskTools, c running, now int64) {
	kind := "web_fetch"
	address := argument(c.call, "url", "uri")
	if address == "" {
		kind, address = "web_search", argument(c.call, "query", "q")
	}
	switch {
	case c.result.IsError:
		t.PageFailure = &session.PageFailed{At: now, Tool: c.call.Name, URL: address, Error: firstChars(c.result.Content, maxErrorShown)}
	case address != "":
		t.Pages = append(t.Pages, session.Page{Tool: kind, URL: address, At: now})
	}
}
