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

// replay applies foreign events to a state, and to a history where it speaks.
type replay struct {
	state *State
	turns []passage
	newID func() string
	speak bool

	lines []string // readable, not yet a message
}

// all applies events and counts those that meant something.
func (p *replay) all(events []ForeignEvent) int {
	results := pairedResults(events)
	used := map[int]bool{}
	n := 0
	for i, e := range events {
		o, err := readObject(e.Payload)
		if err != nil {
			continue // it says nothing
		}
		meant := p.fold(e, o)
		if p.speak {
			meant = p.say(events, i, o, results, used) || meant
		}
		if meant {
			n++
		}
	}
	p.flush()
	return n
}

// say adds what an event says to the history. Calls stand with their results;
// those that lack one, and results alone, are lines to read.
func (p *replay) say(events []ForeignEvent, i int, o object, results map[int]int, used map[int]bool) bool {
	e := events[i]
	message := o.text("message")
	switch e.Kind() {
	case "user_message":
		p.flush()
		p.turns = append(p.turns, textPassage(roleUser, message))
		p.state.Said.User = message
		p.delivered(o.text("inboxId"), message)
	case "assistant_message":
		p.flush()
		p.turns = append(p.turns, passage{role: roleAssistant, blocks: []block{textBlock(message)}})
		p.answered(message)
	case "tool_call":
		at, ok := results[i]
		if !ok {
			p.lines = append(p.lines, readableLine(e, o))
			return true
		}
		used[at] = true
		p.call(events[at], o)
	case "tool_result", "tool_error":
		if !used[i] {
			p.lines = append(p.lines, readableLine(e, o))
		}
	default:
		return false
	}
	return true
}

func (p *replay) call(end ForeignEvent, call object) {
	p.flush()
	result, err := readObject(end.Payload)
	if err != nil {
		return // it was paired as one
	}
	id := cmp.Or(call.text("callId"), "call-"+p.newID())
	input, ok := call.get("input")
	if !ok || string(input) == "null" {
		input = json.RawMessage("{}")
	}
	r := &session.ToolResult{CallID: id, IsError: end.Kind() == "tool_error"}
	if value, ok := result.get("result"); ok && !r.IsError {
		r.Content = textOrJSON(value)
	} else {
		value, _ := result.get("error")
		r.Content = textOrJSON(value)
	}
	p.turns = append(p.turns,
		passage{role: roleAssistant, blocks: []block{callBlock(id, cmp.Or(call.text("tool"), "tool"), input)}},
		passage{role: roleUser, blocks: []block{resultBlock(r, false)}})
}

// flush makes a message of the lines that wait.
func (p *replay) flush() {
	if len(p.lines) > 0 {
		p.turns = append(p.turns, textPassage(roleUser, strings.Join(p.lines, "\n")))
		p.lines = nil
	}
}

func (p *replay) answered(text string) {
	t := &p.state.Said
	t.Answer, t.Shown = &text, &text
	if id := p.state.Steps.Current; id != nil {
		if step, ok := p.state.Plan.Step(*id); ok && step.Kind == "verification" {
			return
		}
	}
	t.Result = &text
}

// pairedResults finds the result of each call: by its id, or, where there are
// none, the first of the same tool.
func pairedResults(events []ForeignEvent) map[int]int {
	open := map[string][]int{}
	pairs := map[int]int{}
	for i, e := range events {
		o, err := readObject(e.Payload)
		if err != nil {
			continue
		}
		key := "id:" + o.text("callId")
		if key == "id:" {
			key = "tool:" + o.text("tool")
		}
		switch e.Kind() {
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

// fold moves the state as an event says, and reports whether it says anything.
func (p *replay) fold(e ForeignEvent, o object) bool {
	s, l := p.state, &p.state.Loop
	count := func(key string, into *int) {
		if n, ok := o.number(key); ok && n >= 0 {
			*into = int(n)
		}
	}
	switch e.Kind() {
	case "plan_created", "plan_revised":
		var plan *session.Plan
		if value, ok := o.get("plan"); ok && json.Unmarshal(value, &plan) == nil && plan != nil {
			s.Plan = numbered(plan)
		}
	case "step_started", "step_completed", "step_failed", "step_skipped":
		p.step(e, o)
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
		p.delivered(o.text("id"), "")
	case "step_feedback", "step_feedback_ignored":
		p.consumed(o)
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
		p.newWindow(e)
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

// newWindow begins another window of turns.
func (p *replay) newWindow(e ForeignEvent) {
	t := totalsOf(p.state.Usage)
	p.state.Usage = session.TaskUsage{
		EarlierInput: t.InputTokens, EarlierOutput: t.OutputTokens, EarlierCost: t.Cost,
	}
	l := &p.state.Loop
	l.Turns, l.Iterations, l.WindowStart = 0, 0, e.Seq
	l.SoftDeadline, l.WrapUp, l.LowTurnsNoted, l.LandingNoted = false, false, false, false
	l.BlockedText, l.Blocked = nil, nil
}

// step takes in where a step of the plan has come to.
func (p *replay) step(e ForeignEvent, o object) {
	var step *session.PlanStep
	if value, ok := o.get("step"); !ok || json.Unmarshal(value, &step) != nil || step == nil || step.ID == "" {
		return
	}
	status := strings.TrimPrefix(e.Kind(), "step_")
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

// numbered gives steps without an id of their own one.
func numbered(plan *session.Plan) *session.Plan {
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

// delivered takes a follow-up out of the queue: by its id, else the first that
// says this.
func (p *replay) delivered(id, message string) {
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

// consumed takes feedback out of the queue.
func (p *replay) consumed(o object) {
	all := slices.Clone(p.state.Queues.Feedback)
	at := slices.IndexFunc(all, func(f session.StepFeedback) bool {
		if id := o.text("id"); id != "" && f.ID != "" {
			return f.ID == id
		}
		return f.Action == o.text("action") && (f.StepID == o.text("stepId") || f.StepID == "current")
	})
	if at < 0 {
		return
	}
	p.state.Queues.Feedback = slices.Delete(all, at, at+1)
}

func totalsIn(o object) (usageTotals, bool) {
	value, ok := o.get("totals")
	var t *usageTotals
	if !ok || json.Unmarshal(value, &t) != nil || t == nil {
		return usageTotals{}, false
	}
	return usageTotals{max(t.InputTokens, 0), max(t.OutputTokens, 0), max(t.Cost, 0)}, true
}

// lastUsage is what the last event about usage says.
func lastUsage(events []ForeignEvent) session.TaskUsage {
	for _, e := range slices.Backward(events) {
		if e.Kind() != "llm_usage" {
			continue
		}
		if o, err := readObject(e.Payload); err == nil {
			if t, ok := totalsIn(o); ok {
				return session.TaskUsage{Input: t.InputTokens, Output: t.OutputTokens, Cost: t.Cost}
			}
		}
	}
	return session.TaskUsage{}
}

// lastChecklist is that of the last event which carries one. Snapshots speak
// for themselves.
func lastChecklist(events []ForeignEvent) (session.Checklist, bool) {
	for _, e := range slices.Backward(events) {
		if e.Kind() == task.SnapshotEvent {
			continue
		}
		if o, err := readObject(e.Payload); err == nil {
			if list, ok := checklistOf(o); ok {
				return list, true
			}
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
