package acp

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
)

// toolKinds says what the known tools do, for the icon that an editor shows.
var toolKinds = map[string]string{
	"file_read": "read", "file_list": "read", "file_find": "search", "file_search": "search",
	"file_write": "edit", "file_edit": "edit", "file_move": "move", "file_delete": "delete",
	"shell": "execute", "http_get": "fetch", "http_request": "fetch", "calculator": "think", PlanTool: "think",
}

func toolKind(name string) string {
	if kind, ok := toolKinds[name]; ok {
		return kind
	}
	return "other"
}

// knownArguments are those that say what a call is about, of whatever tool.
type knownArguments struct {
	Path    string  `json:"path"`
	Command string  `json:"command"`
	Pattern string  `json:"pattern"`
	URL     string  `json:"url"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Old     *string `json:"old"`
	New     *string `json:"new"`
	Content *string `json:"content"`
}

// argumentsOf reads the arguments that are known. Those of another type are
// as if they were not there.
func argumentsOf(raw json.RawMessage) knownArguments {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return knownArguments{}
	}
	text := func(name string) string {
		if p := textOf(fields[name]); p != nil {
			return *p
		}
		return ""
	}
	return knownArguments{
		Path: text("path"), Command: text("command"), Pattern: text("pattern"), URL: text("url"), From: text("from"), To: text("to"),
		Old: textOf(fields["old"]), New: textOf(fields["new"]), Content: textOf(fields["content"]),
	}
}

func textOf(raw json.RawMessage) *string {
	var text *string
	if json.Unmarshal(raw, &text) != nil {
		return nil
	}
	return text
}

// describe returns a call as an editor shows it, without its state.
func (v *view) describe(id, name string, arguments json.RawMessage) toolCall {
	in := argumentsOf(arguments)
	about := in.Path
	for _, next := range []string{in.Command, in.Pattern, in.URL, in.From} {
		if about == "" {
			about = next
		}
	}
	line, _, _ := strings.Cut(about, "\n")
	c := toolCall{ID: id, Name: name, Title: strings.TrimSpace(name + " " + line), ToolKind: toolKind(name)}
	if json.Valid(arguments) {
		c.RawInput = arguments
	}
	kind := c.ToolKind
	if file := kind == "read" || kind == "edit" || kind == "delete" || kind == "move" || kind == "search"; !file {
		return c
	}
	for _, path := range []string{in.Path, in.From, in.To} {
		if path != "" {
			c.Locations = append(c.Locations, location{v.absolute(path)})
		}
	}
	switch {
	case name == "file_edit" && in.Old != nil && in.New != nil:
		c.Content = []toolContent{{Type: "diff", Path: v.absolute(in.Path), OldText: in.Old, NewText: in.New}}
	case name == "file_write" && in.Content != nil:
		c.Content = []toolContent{{Type: "diff", Path: v.absolute(in.Path), NewText: in.Content}}
	}
	return c
}

func (v *view) absolute(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(v.dir, path)
}

// showCall sends a tool call, and what changed of one that was sent.
func (v *view) showCall(op projector.Op, i projector.Item) error {
	c := v.describe(i.Call.CallID, i.Call.Name, i.Call.Arguments)
	c.Status = "pending"
	switch {
	case op == projector.Withdrawn:
		c.Status = "failed" // the answer that made it is void
	case i.Call.State == projector.CallRunning:
		c.Status = "in_progress"
	case i.Call.State == projector.CallDone && i.Call.Result != nil && i.Call.Result.IsError:
		c.Status = "failed"
	case i.Call.State == projector.CallDone:
		c.Status = "completed"
	}
	if r := i.Call.Result; r != nil && r.Content != "" {
		result := textBlock(r.Content)
		c.Content = append(c.Content, toolContent{Type: "content", Content: &result})
	}
	now, err := json.Marshal(c)
	if err != nil {
		return err
	}
	before, sent := v.calls[c.ID]
	if sent && before == string(now) {
		return nil
	}
	v.calls[c.ID] = string(now)
	if c.Kind = "tool_call"; sent {
		c.Kind = "tool_call_update"
	}
	if err := v.s.update(v.id, c); err != nil {
		return err
	}
	if i.Call.Name == PlanTool && c.Status == "completed" {
		return v.showPlanCall(i.Call.Arguments)
	}
	return nil
}

// tasksKey is the metadata of a session's task list.
const tasksKey = "tasks"

// showTasks sends the task list of a session as a plan.
func (v *view) showTasks(raw json.RawMessage) error {
	var tasks []session.TaskItem
	if raw == nil || json.Unmarshal(raw, &tasks) != nil {
		return nil // nothing, or nothing of ours
	}
	entries := make([]planEntry, len(tasks))
	for i, task := range tasks {
		entries[i] = planEntry{Content: task.Content, Priority: "medium", Status: string(task.Status)}
	}
	return v.s.update(v.id, planUpdate{"plan", entries})
}
