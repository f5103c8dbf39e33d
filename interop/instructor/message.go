package instructor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// messageStore reads the sections in the order in which the model saw them: the
// summary becomes the window's summary, the others the transcript.
func (im *importer) messageStore(p value, st *session.State) {
	p.checkKeys("sections", "parameters")
	p.at("parameters").drop()
	byName := map[string][]value{}
	for _, section := range p.at("sections").items() {
		section.checkKeys("name", "messages")
		name := section.at("name").text()
		switch name {
		case "summary", "buffer", "messages":
			byName[name] = append(byName[name], section.at("messages").items()...)
		default:
			section.at("messages").drop()
			im.note("%s is a section that the model does not see; its messages were left out", section.path)
		}
	}
	st.Window = session.Window{Keep: []int64{}, Summary: im.summary(byName["summary"], st.CreatedAt)}
	last := st.CreatedAt
	for _, m := range append(byName["buffer"], byName["messages"]...) {
		message := im.message(m, last)
		message.Seq = int64(len(st.Messages) + 1)
		last = message.CreatedAt
		im.byID[message.ID] = len(st.Messages)
		st.Messages = append(st.Messages, message)
	}
	if st.Window.Summary != nil {
		st.Window.FromSeq = 1
	}
}

func (im *importer) summary(messages []value, created time.Time) *session.Summary {
	var texts []string
	for _, p := range messages {
		p.checkKeys(messageKeys()...)
		created = cmp.Or(p.at("createdAt").moment(), created)
		content := im.content(p.at("content"))
		if text := content.Text(); strings.TrimSpace(text) != "" {
			texts = append(texts, text)
		}
		for i, part := range content {
			if part.Type != session.PartText {
				im.report.Dropped = append(im.report.Dropped, fmt.Sprintf("%s.content[%d]", p.path, i))
			}
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return &session.Summary{Text: strings.Join(texts, "\n\n"), CreatedAt: created}
}

func messageKeys() []string {
	return []string{"id", "createdAt", "parentId", "role", "name", "content", "_metadata", "tool_calls", "tool_result"}
}

// message reads one message. Without a time it gets that of the one before.
func (im *importer) message(p value, last time.Time) session.Message {
	p.checkKeys(messageKeys()...)
	p.at("parentId").drop()
	meta := p.at("_metadata")
	meta.v = meta.entries()
	m := session.Message{
		ID: im.messageID(p.at("id")), CreatedAt: cmp.Or(p.at("createdAt").moment(), last), Role: oneOf[session.Role](p.at("role"), "system", "developer", "user", "assistant", "tool"), Name: p.at("name").optional(),
		Content: im.content(p.at("content")), ExecutionID: meta.at("execution_id").optional(), StepID: meta.at("step_id").optional(),
		Trace: meta.at("is_trace").boolean(),
	}
	im.tools(p, meta, &m)
	m.Metadata = meta.without("execution_id", "step_id", "is_trace", "tool_calls", "tool_result", "tool_call_id", "tool_name").values()
	return m
}

// without returns a map without some of its keys.
func (p value) without(keys ...string) value {
	rest := maps.Clone(p.entries())
	maps.DeleteFunc(rest, func(key string, _ any) bool { return slices.Contains(keys, key) })
	p.v = rest
	return p
}

// messageID keeps a valid, unique id and makes a new one otherwise.
func (im *importer) messageID(p value) string {
	old := p.optional()
	id := old
	for n := 1; id == "" || len(id) > 255 || strings.ContainsFunc(id, unicode.IsControl) || im.ids[id]; n++ {
		if im.opts.NewMessageID == nil || n > 3 { // NewMessageID may repeat ids
			id = fmt.Sprintf("imported-%d", len(im.ids)+n)
		} else {
			id = im.opts.NewMessageID()
		}
	}
	if old != "" && id != old {
		im.report.Renamed = append(im.report.Renamed, foreign.Rename{Path: p.path, From: old, To: id})
	}
	im.ids[id] = true
	return id
}

// tools reads calls and results, from the message or, in older files, from
// its metadata.
func (im *importer) tools(p, meta value, m *session.Message) {
	calls, result := p.at("tool_calls"), p.at("tool_result")
	if calls.empty() {
		calls = meta.at("tool_calls")
	}
	if result.empty() {
		result = meta.at("tool_result")
	}
	for i, call := range calls.items() {
		m.ToolCalls = append(m.ToolCalls, im.toolCall(call, m.ID, i))
	}
	if len(m.ToolCalls) > 0 && m.Role != session.RoleAssistant {
		im.fail(calls.path, "only an assistant message may have tool calls")
	}
	switch {
	case !result.empty():
		result.checkKeys("content", "call_id", "tool_name", "is_error")
		m.ToolResult = &session.ToolResult{
			CallID: result.at("call_id").optional(), ToolName: result.at("tool_name").optional(),
			Content: result.at("content").plain(), IsError: result.at("is_error").boolean(),
		}
		if m.Role != session.RoleTool {
			im.note("%s has a tool result and became a message of role tool", foreign.GeneralPath(p.path))
			m.Role = session.RoleTool
		}
	case m.Role == session.RoleTool:
		m.ToolResult = &session.ToolResult{
			CallID: meta.at("tool_call_id").optional(), ToolName: meta.at("tool_name").optional(), Content: m.Content.Text(),
		}
	default:
		return
	}
	if m.Content.Text() == m.ToolResult.Content {
		m.Content = nil // the result has it
	}
	im.answer(m.ToolResult)
}

// toolCall reads a call in the file's own format or in OpenAI's. A call without
// an id gets one.
func (im *importer) toolCall(p value, messageID string, i int) session.ToolCall {
	from := p
	if function := p.at("function"); function.v != nil {
		p.checkKeys("id", "type", "function")
		function.checkKeys("name", "arguments")
		from = function
	} else {
		p.checkKeys("id", "name", "arguments")
	}
	call := session.ToolCall{ID: p.at("id").optional(), Name: from.at("name").text(), Arguments: from.at("arguments").arguments()}
	if call.Name == "" {
		im.fail(from.at("name").path, "is empty")
	}
	if call.ID == "" {
		call.ID = fmt.Sprintf("%s-call-%d", messageID, i+1)
		im.unnamed = append(im.unnamed, call)
	}
	return call
}

// answer assigns a result without a call id to the first call without an id.
func (im *importer) answer(r *session.ToolResult) {
	if r.CallID != "" {
		return
	}
	for i, call := range im.unnamed {
		if r.ToolName == "" || r.ToolName == call.Name {
			r.CallID, r.ToolName = call.ID, call.Name
			im.unnamed = append(im.unnamed[:i:i], im.unnamed[i+1:]...)
			return
		}
	}
}

// arguments reads an object, or a text with one.
func (p value) arguments() json.RawMessage {
	if text, ok := p.v.(string); ok {
		var object map[string]any
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if text != "" && (dec.Decode(&object) != nil || dec.More()) {
			p.im.fail(p.path, "is a text that is not a JSON object")
		}
		p.v = object
	}
	p.v = p.entries()
	if p.empty() {
		return json.RawMessage("{}")
	}
	return p.raw()
}

// plain reads a text; other values become JSON.
func (p value) plain() string {
	switch v := p.v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return string(p.raw())
}

func (im *importer) content(p value) session.Content {
	switch v := p.v.(type) {
	case nil:
		return nil
	case string:
		return session.Text(v)
	}
	var content session.Content
	for _, part := range p.items() {
		if text, ok := part.v.(string); ok {
			content = append(content, session.Part{Type: session.PartText, Text: text})
			continue
		}
		if p, ok := im.part(part); ok {
			content = append(content, p)
		}
	}
	return content
}

// part reads one part of content. Unknown types are kept unchanged.
func (im *importer) part(p value) (session.Part, bool) {
	kind := p.at("type").text()
	switch kind {
	case "text":
		p.checkKeys("type", "text")
		return session.Part{Type: session.PartText, Text: p.at("text").optional()}, true
	case "image_url":
		p.checkKeys("type", "image_url")
		return splitDataURL(session.Part{Type: session.PartImage, URL: p.open("image_url", "url").at("url").optional()}), true
	case "file":
		p.checkKeys("type", "file")
		file := p.open("file", "file_data", "file_name", "file_id")
		part := splitDataURL(session.Part{Type: session.PartFile, URL: file.at("file_data").optional()})
		if part.URL != "" {
			part.Data, part.URL = part.URL, "" // not a data URL but plain base64
		}
		part.Name, part.FileID = file.at("file_name").optional(), file.at("file_id").optional()
		return part, true
	case "input_audio":
		p.checkKeys("type", "input_audio")
		audio := p.open("input_audio", "data", "format")
		part := session.Part{Type: session.PartAudio, Data: audio.at("data").optional()}
		if format := audio.at("format").optional(); format != "" {
			part.MediaType = "audio/" + format
		}
		return part, true
	}
	var part session.Part
	p.v = p.scrub()
	if im.err != nil || json.Unmarshal(p.raw(), &part) != nil {
		p.drop()
		return session.Part{}, false
	}
	return part, true
}

// splitDataURL splits data:image/png;base64,… into type and data.
func splitDataURL(part session.Part) session.Part {
	rest, ok := strings.CutPrefix(part.URL, "data:")
	if !ok {
		return part
	}
	kind, data, ok := strings.Cut(rest, ",")
	kind, base64 := strings.CutSuffix(kind, ";base64")
	if ok && base64 {
		part.URL, part.MediaType, part.Data = "", kind, data
	}
	return part
}
