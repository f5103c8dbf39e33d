package session

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// writer puts JSON together piece by piece. What is written at every save goes
// through it: encoding/json reads all that a type encodes itself once more, at
// each level above it, which is too much for large values. The bytes are those
// of encode; the tests hold them against it.
type writer struct {
	b   []byte
	err error // the first
}

func (w *writer) done() ([]byte, error) { return w.b, w.err }

func (w *writer) open()  { w.b = append(w.b, '{') }
func (w *writer) close() { w.b = append(w.b, '}') }

// key begins a field. Names are plain: they need no escapes.
func (w *writer) key(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *writer) text(name, value string) {
	w.key(name)
	w.b = appendString(w.b, value)
}

// textIf leaves out what is empty.
func (w *writer) textIf(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func (w *writer) number(name string, value int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, value, 10)
}

func (w *writer) flag(name string, value bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, value)
}

func (w *writer) flagIf(name string, value bool) {
	if value {
		w.flag(name, value)
	}
}

func (w *writer) time(name string, value time.Time) {
	w.key(name)
	raw, err := value.MarshalJSON() // it knows which times JSON can hold
	w.add(raw, err)
}

// raw adds a value that is compact JSON already.
func (w *writer) raw(name string, value json.RawMessage) {
	w.key(name)
	if value == nil {
		value = json.RawMessage("null")
	}
	w.b = append(w.b, value...)
}

// any adds a value that is small or rare.
func (w *writer) any(name string, value any) {
	w.key(name)
	w.add(encode(value))
}

func (w *writer) add(raw []byte, err error) {
	w.b = append(w.b, raw...)
	if w.err == nil {
		w.err = err
	}
}

// values adds a map whose values are compact JSON already.
func (w *writer) values(name string, v Values) {
	w.key(name)
	w.open()
	for i, key := range slices.Sorted(maps.Keys(v)) {
		w.dynamicKey(i, key)
		w.b = append(w.b, v[key]...)
	}
	w.close()
}

// dynamicKey begins the i-th entry of a map, whose key may hold anything.
func (w *writer) dynamicKey(i int, key string) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
	w.b = append(appendString(w.b, key), ':')
}

func (w *writer) variables(name string, v map[string]Variable) {
	w.key(name)
	if v == nil {
		w.b = append(w.b, "null"...)
		return
	}
	w.open()
	for i, key := range slices.Sorted(maps.Keys(v)) {
		w.dynamicKey(i, key)
		w.open()
		w.raw("value", v[key].Value)
		if v[key].Labels != nil {
			w.any("labels", v[key].Labels)
		}
		w.flagIf("deleted", v[key].Deleted)
		w.number("version", v[key].Version)
		w.time("createdAt", v[key].CreatedAt)
		w.time("updatedAt", v[key].UpdatedAt)
		w.textIf("callId", v[key].CallID)
		w.close()
	}
	w.close()
}

// state adds a state as a session keeps it, with these messages.
func (w *writer) state(s *State, messages transcript, partial bool) {
	w.open()
	w.text("agentId", s.AgentID)
	w.text("parentAgentId", s.ParentAgentID)
	w.time("createdAt", s.CreatedAt)
	w.time("updatedAt", s.UpdatedAt)
	w.text("systemPrompt", s.SystemPrompt)
	w.text("model", s.Model)
	w.any("modelParams", s.ModelParams)
	w.any("responseFormat", s.ResponseFormat)
	w.values("metadata", s.Metadata)
	w.variables("variables", s.Variables)
	w.key("messages")
	w.b = append(w.b, '[')
	for i, m := range messages.all() {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.message(m)
	}
	w.b = append(w.b, ']')
	w.flag("partial", partial)
	w.any("window", s.Window)
	if s.TraceCount != nil {
		w.number("traceCount", int64(*s.TraceCount))
	}
	w.number("executionCount", int64(s.ExecutionCount))
	w.number("inferenceCount", int64(s.InferenceCount))
	w.any("execution", s.Execution)
	if len(s.Pending) > 0 {
		w.any("pending", s.Pending)
	}
	if len(s.Responses) > 0 {
		w.any("responses", s.Responses)
	}
	if s.Permissions != nil {
		w.any("permissions", s.Permissions)
	}
	w.any("task", s.Task)
	w.any("workflow", s.Workflow)
	w.flagIf("titled", s.Titled)
	w.any("usage", s.Usage)
	w.any("cost", s.Cost)
	w.close()
}

// ledger adds the changes of a workflow run, where there are any.
func (w *writer) ledger(records vector[*Record]) {
	if records.len() == 0 {
		return
	}
	w.key("ledger")
	w.b = append(w.b, '[')
	for i, r := range records.all() {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.add(r.MarshalJSON())
	}
	w.b = append(w.b, ']')
}

func (w *writer) message(m *Message) {
	w.open()
	w.text("id", m.ID)
	w.number("seq", m.Seq)
	w.time("createdAt", m.CreatedAt)
	w.text("role", string(m.Role))
	w.textIf("name", m.Name)
	if len(m.Content) == 1 && m.Content.plainText() {
		w.text("content", m.Content[0].Text)
	} else {
		w.any("content", m.Content)
	}
	if len(m.ToolCalls) > 0 {
		w.any("toolCalls", m.ToolCalls)
	}
	if r := m.ToolResult; r != nil {
		w.key("toolResult")
		w.open()
		w.text("callId", r.CallID)
		w.text("toolName", r.ToolName)
		w.text("content", r.Content)
		w.flagIf("isError", r.IsError)
		w.flagIf("synthetic", r.Synthetic)
		w.close()
	}
	w.textIf("executionId", m.ExecutionID)
	w.textIf("stepId", m.StepID)
	w.textIf("unit", m.Unit)
	w.textIf("lane", m.Lane)
	w.flagIf("trace", m.Trace)
	w.textIf("requestId", m.RequestID)
	w.textIf("rootRequestId", m.RootRequestID)
	w.textIf("parentRequestId", m.ParentRequestID)
	if len(m.Metadata) > 0 {
		w.any("metadata", m.Metadata)
	}
	w.close()
}

// appendString adds a JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0 // what lies before it is in b
	for i := 0; i < len(s); {
		c := s[i]
		size := 1
		switch {
		case c >= utf8.RuneSelf:
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				b = append(append(b, s[done:i]...), `\ufffd`...)
				done = i + size
			case r == '\u2028' || r == '\u2029': // no line breaks to a browser either
				b = append(append(append(b, s[done:i]...), `\u202`...), '8'+byte(r-'\u2028'))
				done = i + size
			}
		case c < ' ' || c == '"' || c == '\\':
			b = appendEscaped(append(b, s[done:i]...), c)
			done = i + 1
		}
		i += size
	}
	return append(append(b, s[done:]...), '"')
}

// appendEscaped adds a character that cannot stand in a JSON string as it is.
func appendEscaped(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}
