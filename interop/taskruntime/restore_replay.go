package taskruntime

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// replay applies foreign events to a state, and to a history if buildsHistory.
type replay struct {
	state         *session.TaskState
	history       []historyMessage
	newID         func() string
	buildsHistory bool

	lines []string // lines for the next message
}

// apply applies events and counts those that had an effect.
func (p *replay) apply(events []event) int {
	results := pairResults(events)
	used := map[int]bool{}
	n := 0
	for i, e := range events {
		applied := p.applyToState(e)
		if p.buildsHistory {
			applied = p.addToHistory(events, i, results, used) || applied
		}
		if applied {
			n++
		}
	}
	p.flushLines()
	return n
}

// addToHistory adds a message or a call with its result. Calls without a result
// and results without a call become lines of text.
func (p *replay) addToHistory(events []event, i int, results map[int]int, used map[int]bool) bool {
	e, o := events[i], events[i].data
	message := o.text("message")
	switch e.kind {
	case "user_message":
		p.flushLines()
		p.history = append(p.history, textMessage(roleUser, message))
		p.state.Said.User = message
		p.dequeueFollowUp(o.text("inboxId"), message)
	case "assistant_message":
		p.flushLines()
		p.history = append(p.history, historyMessage{role: roleAssistant, blocks: []block{textBlock(message)}})
		p.recordAnswer(message)
	case "tool_call":
		at, ok := results[i]
		if !ok {
			p.lines = append(p.lines, eventLine(e))
			return true
		}
		used[at] = true
		p.addCall(events[at], o)
	case "tool_result", "tool_error":
		if !used[i] {
			p.lines = append(p.lines, eventLine(e))
		}
	default:
		return false
	}
	return true
}

func (p *replay) addCall(end event, call object) {
	p.flushLines()
	id := cmp.Or(call.text("callId"), "call-"+p.newID())
	input, ok := call.get("input")
	if !ok || string(input) == "null" {
		input = json.RawMessage("{}")
	}
	r := &session.ToolResult{CallID: id, IsError: end.kind == "tool_error"}
	value, ok := end.data.get("result")
	if !ok || r.IsError {
		value, _ = end.data.get("error")
	}
	r.Content = textOrJSON(value)
	p.history = append(p.history,
		historyMessage{role: roleAssistant, blocks: []block{callBlock(id, cmp.Or(call.text("tool"), "tool"), input)}},
		historyMessage{role: roleUser, blocks: []block{resultBlock(r, false)}})
}

// flushLines makes one message of the collected lines.
func (p *replay) flushLines() {
	if len(p.lines) > 0 {
		p.history = append(p.history, textMessage(roleUser, strings.Join(p.lines, "\n")))
		p.lines = nil
	}
}

func (p *replay) recordAnswer(text string) {
	t := &p.state.Said
	t.Answer, t.Shown = &text, &text
	if id := p.state.Steps.Current; id != nil {
		if step, ok := p.state.Plan.Step(*id); ok && step.Kind == "verification" {
			return
		}
	}
	t.Result = &text
}

// pairResults finds the result of each call: by its id, or, for calls without
// an id, the first result of the same tool.
func pairResults(events []event) map[int]int {
	open := map[string][]int{}
	pairs := map[int]int{}
	for i, e := range events {
		key := "id:" + e.data.text("callId")
		if key == "id:" {
			key = "tool:" + e.data.text("tool")
		}
		switch e.kind {
		case "tool_call":
			open[key] = append(open[key], i)
		case "tool_result", "tool_error":
			if waiting := open[key]; len(waiting) > 0 {
				pairs[waiting[0]], open[key] = i, waiting[1:]
			}
		}
	}
	return pairs
}

// applyToState changes the state and reports whether the event is about it.
func (p *replay) applyToState(e event) bool {
	o, s, l := e.data, p.state, &p.state.Loop
	count := func(key string, into *int) {
		if n, ok := o.number(key); ok && n >= 0 {
			*into = int(n)
		}
	}
	switch e.kind {
	case "plan_created", "plan_revised":
		var plan *session.Plan
		if value, ok := o.get("plan"); ok && json.Unmarshal(value, &plan) == nil && plan != nil {
			s.Plan = numberSteps(plan)
		}
	case "step_started", "step_completed", "step_failed", "step_skipped":
		p.applyStep(e)
	case "task_list_created", "task_list_updated", "task_list_verification_nudged":
		if list, ok := checklistOf(o); ok {
			s.Checklist = list
		}
	case "llm_usage":
		l.Iterations++
		l.Turns++
		l.LifetimeTurns++
		if t, ok := totalsIn(o); ok {
			s.Usage.Input = max(t.InputTokens-s.Usage.EarlierInput, 0)
			s.Usage.Output = max(t.OutputTokens-s.Usage.EarlierOutput, 0)
			s.Usage.Cost = max(t.Cost-s.Usage.EarlierCost, 0)
		}
	case "follow_up_delivered":
		p.dequeueFollowUp(o.text("id"), "")
	case "step_feedback", "step_feedback_ignored":
		p.dequeueFeedback(o)
	case "continuation_decision":
		count("noProgressStreak", &l.NoProgress)
		l.Fingerprint = cmp.Or(o.text("dominantFingerprint"), l.Fingerprint)
	case "no_progress_circuit_breaker":
		count("noProgressStreak", &l.NoProgress)
	case "auto_continuation_started":
		count("continuationCount", &l.Continuations)
		count("continuationWindow", &l.Window)
	case "budget_reset_for_continuation":
		count("continuationCount", &l.Continuations)
		count("continuationWindow", &l.Window)
		p.startWindow(e)
	case "turn_window_soft_exhausted":
		l.LowTurnsNoted = true
		count("turnsUsed", &l.Turns)
		count("lifetimeTurnsUsed", &l.LifetimeTurns)
	case "budget_soft_landing":
		l.LandingNoted = true
		count("usedTurns", &l.Turns)
		count("lifetimeUsedTurns", &l.LifetimeTurns)
	case "context_compaction_completed", "context_capacity_recovery_completed":
		l.Compactions++
		l.CompactedAt = e.Timestamp
		l.TokensBefore, _ = o.number("tokensBefore")
		l.TokensAfter, _ = o.number("tokensAfter")
	case "follow_up_turn_recovery_started":
		l.FollowUpRetries++
	case "follow_up_turn_recovery_blocked":
		l.FollowUpBlock = o.text("reason")
	default:
		return false
	}
	return true
}

// startWindow starts another window of turns.
func (p *replay) startWindow(e event) {
	t := totalsOf(p.state.Usage)
	p.state.Usage = session.TaskUsage{
		EarlierInput: t.InputTokens, EarlierOutput: t.OutputTokens, EarlierCost: t.Cost,
	}
	l := &p.state.Loop
	l.Turns, l.Iterations, l.WindowStart = 0, 0, e.Seq
	l.SoftDeadline, l.WrapUp, l.LowTurnsNoted, l.LandingNoted = false, false, false, false
	l.BlockedText, l.Blocked = nil, nil
}

// applyStep updates one step of the plan.
func (p *replay) applyStep(e event) {
	o := e.data
	var step *session.PlanStep
	if value, ok := o.get("step"); !ok || json.Unmarshal(value, &step) != nil || step == nil || step.ID == "" {
		return
	}
	status := strings.TrimPrefix(e.kind, "step_")
	if status == "started" {
		status, p.state.Steps.Current = "in_progress", &step.ID
	} else {
		p.state.Steps.Current = nil
	}
	step.Status = status
	if message := o.text("error"); step.Error == "" && status == "failed" {
		step.Error = message
	}
	if p.state.Plan == nil {
		return
	}
	steps := slices.Clone(p.state.Plan.Steps)
	for i := range steps {
		if steps[i].ID == step.ID {
			step.Description = cmp.Or(step.Description, steps[i].Description)
			step.Kind = cmp.Or(step.Kind, steps[i].Kind)
			steps[i] = *step
		}
	}
	p.state.Plan = &session.Plan{Description: p.state.Plan.Description, Steps: steps}
}

// numberSteps gives an id to steps with no id or a duplicate one.
func numberSteps(plan *session.Plan) *session.Plan {
	seen := map[string]bool{}
	for i := range plan.Steps {
		step := &plan.Steps[i]
		for n := i + 1; step.ID == "" || seen[step.ID]; n++ {
			step.ID = fmt.Sprintf("step-%d", n)
		}
		seen[step.ID] = true
		step.Status = cmp.Or(step.Status, "pending")
	}
	return plan
}

// dequeueFollowUp removes a delivered follow-up: by its id, else the first with
// this message.
func (p *replay) dequeueFollowUp(id, message string) {
	q := &p.state.Queues
	at := slices.IndexFunc(q.FollowUps, func(f session.FollowUp) bool {
		if id != "" && f.ID != "" {
			return f.ID == id
		}
		return message != "" && (message == f.Message || message == followUpPrefix+f.Message)
	})
	if at >= 0 {
		q.FollowUps = slices.Delete(slices.Clone(q.FollowUps), at, at+1)
	}
}

const followUpPrefix = "USER UPDATE: "

func (p *replay) dequeueFeedback(o object) {
	all := slices.Clone(p.state.Queues.Feedback)
	at := slices.IndexFunc(all, func(f session.StepFeedback) bool {
		if id := o.text("id"); id != "" && f.ID != "" {
			return f.ID == id
		}
		return f.Action == o.text("action") && (f.StepID == o.text("stepId") || f.StepID == "current")
	})
	if at >= 0 {
		p.state.Queues.Feedback = slices.Delete(all, at, at+1)
	}
}

func totalsIn(o object) (usageTotals, bool) {
	value, ok := o.get("totals")
	var t *usageTotals
	if !ok || json.Unmarshal(value, &t) != nil || t == nil {
		return usageTotals{}, false
	}
	return usageTotals{max(t.InputTokens, 0), max(t.OutputTokens, 0), max(t.Cost, 0)}, true
}

// lastUsage reads the last event with usage totals.
func lastUsage(events []event) session.TaskUsage {
	for _, e := range slices.Backward(events) {
		if t, ok := totalsIn(e.data); ok && e.kind == "llm_usage" {
			return session.TaskUsage{Input: t.InputTokens, Output: t.OutputTokens, Cost: t.Cost}
		}
	}
	return session.TaskUsage{}
}

// lastChecklist reads the last event with a checklist. Snapshots are left out:
// the caller has read the one that counts.
func lastChecklist(events []event) (session.Checklist, bool) {
	for _, e := range slices.Backward(events) {
		if list, ok := checklistOf(e.data); ok && e.kind != task.SnapshotEvent {
			return list, true
		}
	}
	return session.Checklist{}, false
}

func checklistOf(o object) (session.Checklist, bool) {
	value, ok := o.get("checklist")
	var list session.Checklist
	if !ok || json.Unmarshal(value, &list) != nil || list.Items == nil {
		return list, false
	}
	return list, true
}
