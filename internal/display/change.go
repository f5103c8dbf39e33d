package display

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

// ChangeText describes a change in a few words.
func ChangeText(c session.Change) string {
	switch c := c.(type) {
	case session.SessionCreated:
		return terminal.OneLine(c.Header.AgentName)
	case session.SessionForked:
		return fmt.Sprintf("from %s at version %d", ShortID(c.ParentID), c.Fork.Version)
	case session.SessionRewound:
		return fmt.Sprintf("to version %d", c.Version)
	case session.MessageAdded:
		text := c.Message.Content.Text()
		for _, call := range c.Message.ToolCalls {
			text += " → " + call.Name
		}
		if r := c.Message.ToolResult; r != nil {
			text = "← " + r.ToolName + " " + r.Content
		}
		return string(c.Message.Role) + ": " + terminal.Shortened(text, 80)
	}
	if text, ok := runChangeText(c); ok {
		return text
	}
	if text, ok := turnChangeText(c); ok {
		return text
	}
	return terminal.Shortened(changeData(c), 80)
}

// turnChangeText describes a change of a turn, or of a session's header.
func turnChangeText(c session.Change) (text string, ok bool) {
	said := func(parts ...string) (string, bool) {
		return terminal.OneLine(strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " · ")), true
	}
	switch c := c.(type) {
	case session.ExecutionStarted, session.ExecutionWaiting:
		return "", true
	case session.ExecutionContinued:
		switch {
		case c.Recovery:
			return "by another process", true
		case c.Retry:
			return "tried again", true
		}
		return "", true
	case session.InferenceAnswered:
		return said(c.Model, SpentText(c.Usage, c.Cost), recalledText(c))
	case session.InferenceFailed:
		return said(c.Model, failureText(c.Errors))
	case session.ToolStarted:
		return said(c.ToolName)
	case session.ToolFinished:
		failed := ""
		if c.IsError {
			failed = "failed"
		}
		return said(c.ToolName, failed)
	case session.StepFinished:
		return said(strings.ReplaceAll(string(c.Type), "_", " "), failureText(c.Errors))
	case session.ExecutionFinished:
		stopped := ""
		if c.Stop != nil && string(c.Stop.Reason) != string(c.Status) {
			stopped = cmp.Or(c.Stop.Message, string(c.Stop.Reason))
		}
		return said(string(c.Status), stopped, failureText(c.Errors))
	case session.CallPending:
		return said(string(c.Call.Kind), c.Call.Tool, terminal.Shortened(c.Call.Prompt, 80))
	case session.CallResponded:
		return said(string(c.Response.Action), terminal.Shortened(c.Response.Text, 80))
	case session.StatusChanged:
		return said(string(c.Status), c.Reason)
	case session.NameChanged:
		return said(c.Name)
	case session.SessionTitled:
		return said(c.Title, c.Model)
	case session.ModelChanged:
		return said(c.Model)
	case session.MetadataWritten:
		return said(c.Key, terminal.Shortened(string(c.Value), 80))
	case session.MetadataRemoved:
		return said(c.Key)
	case session.VariableStored:
		return said(c.Key, terminal.Shortened(string(c.Value), 80))
	case session.VariableDeleted:
		return said(c.Key)
	case session.InboxTaken:
		return said(strings.ReplaceAll(c.ItemKind, "_", " "))
	}
	return "", false
}

// failureText returns the last of some failures, "" for none.
func failureText(all []session.Failure) string {
	if len(all) == 0 {
		return ""
	}
	return terminal.Shortened(all[len(all)-1].Message, 80)
}

// runChangeText describes a change of a workflow run.
func runChangeText(c session.Change) (text string, ok bool) {
	of := func(unit, agent, more string) (string, bool) {
		for _, part := range []string{agent, more} {
			if part != "" {
				unit += " · " + part
			}
		}
		return terminal.OneLine(unit), true
	}
	switch c := c.(type) {
	case session.WorkflowRowChanged:
		return of(c.Workflow.Status, "", c.Workflow.Error)
	case session.UnitStarted:
		return of(c.Unit, c.Agent, "")
	case session.UnitFinished:
		return of(c.Unit, c.Agent, "")
	case session.UnitFailed:
		return of(c.Unit, c.Agent, terminal.Shortened(c.Error.Message, 80))
	case session.UnitsReset:
		return of(strings.Join(c.Units, ", "), "", "")
	case session.UnitAdvanced:
		if answered, ok := c.Change.(session.InferenceAnswered); ok {
			return of(c.Unit, "", SpentText(answered.Usage, answered.Cost))
		}
		return of(c.Unit, "", c.Change.Kind())
	case session.CallPending:
		if c.Call.Unit != "" {
			return c.Call.Unit + ": " + terminal.Shortened(cmp.Or(c.Call.Prompt, c.Call.Tool), 80), true
		}
	case session.CallResponded:
		if c.Unit != "" {
			return c.Unit + ": " + terminal.Shortened(cmp.Or(c.Response.Text, string(c.Response.Action)), 80), true
		}
	case session.QuestionPut:
		return c.Question.Unit + ": " + terminal.Shortened(c.Question.Prompt, 80), true
	case session.QuestionAnswered:
		return c.Unit + ": " + terminal.Shortened(c.Response, 80), true
	case session.ArtifactWritten:
		return of(c.Path, "", "")
	}
	return "", false
}

// changeData returns a change as JSON, "" where it says nothing more than its kind.
func changeData(c session.Change) string {
	raw, err := session.JSON(c)
	if err != nil || string(raw) == "{}" {
		return ""
	}
	return string(raw)
}

// recalledText says what memory gave the model and why, or is "".
func recalledText(c session.InferenceAnswered) string {
	if len(c.Recalled) == 0 {
		return ""
	}
	passages := make([]string, len(c.Recalled))
	for i, id := range c.Recalled {
		passages[i] = id
		if i >= len(c.Reasons) {
			continue
		}
		m := c.Reasons[i]
		why := []string{fmt.Sprintf("%.2f", m.Score)}
		if len(m.Words) > 0 {
			why = append(why, "words "+strings.Join(m.Words, " "))
		}
		if m.Meaning > 0 {
			why = append(why, fmt.Sprintf("meaning %.2f", m.Meaning))
		}
		passages[i] += " (" + strings.Join(why, ", ") + ")"
	}
	return "recalled " + strings.Join(passages, ", ")
}
