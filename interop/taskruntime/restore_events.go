package taskruntime

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// How much of what was said is told again.
const (
	mostAnswerTold = 500
	mostResultTold = 1000
)

// readable is a history made of events alone: one message that tells what
// happened, and one that takes note of it. What was said last goes to the
// state. Nothing that happened makes no history.
func readable(t RestoreTask, events []ForeignEvent, s *State) []passage {
	lines := []string{"Original task: " + t.Title, "Task details: " + t.Prompt, "", "Previous conversation summary:"}
	before := len(lines)
	s.Said.User = t.Prompt
	for _, e := range events {
		o, err := readObject(e.Payload)
		if err != nil {
			continue
		}
		if line := readableLine(e, o); line != "" {
			lines = append(lines, line)
		}
		switch text := o.text("message"); {
		case e.Kind() == "assistant_message" && text != "":
			s.Said.Answer, s.Said.Result, s.Said.Shown = &text, &text, &text
		case e.Kind() == "user_message" && text != "":
			s.Said.User = text
		}
	}
	if len(lines) == before {
		return nil
	}
	return []passage{
		textPassage(roleUser, strings.Join(lines, "\n")),
		{role: roleAssistant, blocks: []block{textBlock(takenNoteText)}},
	}
}

const takenNoteText = "I have read what was done so far and go on from there."

// readableLine is what an event says in words; events that need none give "".
func readableLine(e ForeignEvent, o object) string {
	message := o.text("message")
	switch e.Kind() {
	case "user_message":
		return "User: " + message
	case "log":
		if rest, ok := strings.CutPrefix(message, "User: "); ok {
			return "User: " + rest
		}
		return "System: " + message
	case "assistant_message":
		return "Assistant: " + beginning(message, mostAnswerTold)
	case "tool_call":
		return fmt.Sprintf("[Used tool: %s]", o.text("tool"))
	case "tool_result":
		value, _ := o.get("result")
		return fmt.Sprintf("[Tool result from %s: %s]", o.text("tool"), beginning(textOrJSON(value), mostResultTold))
	case "tool_error":
		value, _ := o.get("error")
		return fmt.Sprintf("[Tool error from %s: %s]", o.text("tool"), textOrJSON(value))
	case "plan_created":
		value, _ := o.get("plan")
		plan, _ := readObject(value)
		return fmt.Sprintf("[Created plan: %s]", plan.text("description"))
	case "error":
		return fmt.Sprintf("[Error: %s]", cmp.Or(message, o.text("error")))
	}
	return ""
}

// beginning is the first n characters, with dots where there are more.
func beginning(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n]) + "..."
}

func textOrJSON(value json.RawMessage) string {
	var text *string
	if json.Unmarshal(value, &text) == nil && text != nil {
		return *text
	}
	return string(value)
}

// repair makes a state that came from elsewhere one that can be worked with,
// and says what it did.
func repair(s *State, o RestoreOptions, report *Report) {
	repairChecklist(&s.Checklist, o.NewID, report)
	for key, g := range s.Permissions.TemporaryGrants.All() {
		if !g.SurvivesRestart || g.End() <= o.Now {
			s.Permissions.TemporaryGrants = s.Permissions.TemporaryGrants.Without(key)
			report.warn("permissions.temporaryGrants: %q is over", key)
		}
	}
	repairRules(&s.Permissions, report)
	for i := range s.Approvals {
		a := &s.Approvals[i]
		if a.Status == "pending" && !o.KeepApprovals {
			a.Status, a.ResolvedAt = "expired", o.Now
			report.warn("approvals: %q was open and has expired", a.ID)
		}
	}
	for i := range s.Queues.FollowUps {
		f := &s.Queues.FollowUps[i]
		clean, left := withoutSecrets("agentConfigOverride", f.AgentConfigOverride)
		for _, path := range left {
			report.warn("queues.pendingFollowUps[%d].%s: looks like a credential and is left out", i, path)
		}
		f.AgentConfigOverride = clean
	}
	for _, path := range altered("state", raw(s.TaskState), raw(s.Clone())) {
		report.warn("%s: has more than is kept; the newest stay", path)
	}
}

func repairRules(p *Permissions, report *Report) {
	if err := session.CheckPermissionMode(p.Mode); err != nil {
		report.warn("permissions.mode: %q is no mode; it is default now", p.Mode)
		p.Mode = session.PermissionDefault
	}
	rules := p.SessionRules
	p.SessionRules = []session.Rule{}
	for i, r := range rules {
		next, added, err := p.ofSession().WithRule(r)
		switch {
		case err != nil:
			report.warn("permissions.sessionRules[%d]: %v; it is left out", i, err)
		case !added:
			report.warn("permissions.sessionRules[%d]: says what another says; it is left out", i)
		}
		p.SessionRules = next.SessionRules
	}
}

func repairChecklist(c *session.Checklist, newID func() string, report *Report) {
	seen := map[string]bool{}
	running := false
	kept := []session.ChecklistItem{}
	for i, item := range c.Items {
		item.ID, item.Title, item.Kind = strings.TrimSpace(item.ID), strings.TrimSpace(item.Title), cmp.Or(item.Kind, "implementation")
		at := fmt.Sprintf("checklist.items[%d]", i)
		if why := badItem(item); why != "" {
			report.warn("%s: %s; it is left out", at, why)
			continue
		}
		if len(kept) == task.MaxItems {
			report.warn("%s: a checklist has at most %d items; it is left out", at, task.MaxItems)
			continue
		}
		if item.ID == "" || seen[item.ID] {
			was := item.ID
			item.ID = "task_item_" + newID()
			report.warn("%s: the id %q is not its own; it is %s now", at, was, item.ID)
		}
		if item.Status == "in_progress" && running {
			item.Status = "pending"
			report.warn("%s: another item is in progress; it is pending now", at)
		}
		seen[item.ID], running = true, running || item.Status == "in_progress"
		kept = append(kept, item)
	}
	c.Items = kept
}

func badItem(item session.ChecklistItem) string {
	switch {
	case item.Title == "":
		return "has no title"
	case len([]rune(item.Title)) > task.MaxItemTitle:
		return "has a title that is too long"
	case len([]rune(item.ID)) > task.MaxItemID:
		return "has an id that is too long"
	}
	switch item.Status {
	case "pending", "in_progress", "completed", "blocked":
	default:
		return fmt.Sprintf("%q is no status", item.Status)
	}
	switch item.Kind {
	case "implementation", "verification", "other":
		return ""
	}
	return fmt.Sprintf("%q is no kind", item.Kind)
}
