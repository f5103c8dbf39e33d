package taskruntime

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// How many characters of an answer and of a result a summary repeats.
const (
	maxAnswerChars = 500
	maxResultChars = 1000
)

// summariseEvents makes a history of events alone: a user message with one line
// per event, and the assistant's acknowledgement. The last messages also go to
// the state. Without events that matter there is no history.
func summariseEvents(t RestoreTask, events []event, s *session.TaskState) []historyMessage {
	lines := []string{"Original task: " + t.Title, "Task details: " + t.Prompt, "", "Previous conversation summary:"}
	before := len(lines)
	s.Said.User = t.Prompt
	for _, e := range events {
		if line := eventLine(e); line != "" {
			lines = append(lines, line)
		}
		switch text := e.data.text("message"); {
		case e.kind == "assistant_message" && text != "":
			s.Said.Answer, s.Said.Result, s.Said.Shown = &text, &text, &text
		case e.kind == "user_message" && text != "":
			s.Said.User = text
		}
	}
	if len(lines) == before {
		return nil
	}
	return []historyMessage{
		textMessage(roleUser, strings.Join(lines, "\n")),
		{role: roleAssistant, blocks: []block{textBlock(acknowledgement)}},
	}
}

const acknowledgement = "I have read what was done so far and go on from there."

// eventLine describes an event in one line; "" for events that a summary does
// not need.
func eventLine(e event) string {
	o, message := e.data, e.data.text("message")
	switch e.kind {
	case "user_message":
		return "User: " + message
	case "log":
		if rest, ok := strings.CutPrefix(message, "User: "); ok {
			return "User: " + rest
		}
		return "System: " + message
	case "assistant_message":
		return "Assistant: " + truncate(message, maxAnswerChars)
	case "tool_call":
		return fmt.Sprintf("[Used tool: %s]", o.text("tool"))
	case "tool_result":
		value, _ := o.get("result")
		return fmt.Sprintf("[Tool result from %s: %s]", o.text("tool"), truncate(textOrJSON(value), maxResultChars))
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

// truncate keeps the first n characters and marks a cut with dots.
func truncate(text string, n int) string {
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

// repair drops or corrects what a task cannot run with, and reports each case.
func repair(s *session.TaskState, o RestoreOptions, report *Report) {
	repairChecklist(&s.Checklist, o.NewID, report)
	for key, g := range s.Permissions.TemporaryGrants.All() {
		if !g.SurvivesRestart || g.End() <= o.Now {
			s.Permissions.TemporaryGrants = s.Permissions.TemporaryGrants.Without(key)
			report.warn("permissions.temporaryGrants: %q has ended and is left out", key)
		}
	}
	repairRules(&s.Permissions, report)
	for i := range s.Approvals {
		a := &s.Approvals[i]
		if a.Status == "pending" && !o.KeepApprovals {
			a.Status, a.ResolvedAt = "expired", o.Now
			report.warn("approvals: %q was pending and has expired", a.ID)
		}
	}
	for i := range s.Queues.FollowUps {
		f := &s.Queues.FollowUps[i]
		clean, left := removeSecrets("agentConfigOverride", f.AgentConfigOverride)
		for _, path := range left {
			report.warn("queues.pendingFollowUps[%d].%s: looks like a credential and is left out", i, path)
		}
		f.AgentConfigOverride = clean
	}
	for _, path := range differences("state", rawJSON(s), rawJSON(s.Clone())) {
		report.warn("%s: is longer than a task keeps; the newest entries stay", path)
	}
}

func repairRules(p *session.Permissions, report *Report) {
	if err := session.CheckPermissionMode(p.Mode); err != nil {
		report.warn("permissions.mode: %q is not a permission mode; the mode is default now", p.Mode)
		p.Mode = session.PermissionDefault
	}
	rules := p.SessionRules
	p.SessionRules = []session.Rule{}
	for i, r := range rules {
		next, added, err := p.WithRule(r)
		switch {
		case err != nil:
			report.warn("permissions.sessionRules[%d]: %v; it is left out", i, err)
		case !added:
			report.warn("permissions.sessionRules[%d]: repeats another rule; it is left out", i)
		}
		*p = next
	}
}

func repairChecklist(c *session.Checklist, newID func() string, report *Report) {
	seen := map[string]bool{}
	running := false
	kept := []session.ChecklistItem{}
	for i, item := range c.Items {
		item.ID, item.Title, item.Kind = strings.TrimSpace(item.ID), strings.TrimSpace(item.Title), cmp.Or(item.Kind, "implementation")
		at := fmt.Sprintf("checklist.items[%d]", i)
		if why := itemProblem(item); why != "" {
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
			report.warn("%s: the id %q is empty or a duplicate; it is %s now", at, was, item.ID)
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

func itemProblem(item session.ChecklistItem) string {
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
		return fmt.Sprintf("%q is not a status", item.Status)
	}
	switch item.Kind {
	case "implementation", "verification", "other":
		return ""
	}
	return fmt.Sprintf("%q is not a kind", item.Kind)
}
