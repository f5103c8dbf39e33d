package openai

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/internal/sse"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// chatRequest is the request of a chat completion, as far as it is supported.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	Stream              bool            `json:"stream,omitempty"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
	Tools               []chatTool      `json:"tools,omitempty"`
	ToolChoice          json.RawMessage `json:"tool_choice,omitempty"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	MaxTokens           *int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens *int            `json:"max_completion_tokens,omitempty"`
	ResponseFormat      *chatFormat     `json:"response_format,omitempty"`
	Store               *bool           `json:"store,omitempty"`
	N                   *int            `json:"n,omitempty"`
	PresencePenalty     float64         `json:"presence_penalty,omitempty"`
	FrequencyPenalty    float64         `json:"frequency_penalty,omitempty"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content,omitempty"`
	Name       string          `json:"name,omitempty"`
	Refusal    json.RawMessage `json:"refusal,omitempty"`
	ToolCalls  []chatCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function functionTool `json:"function"`
}

type chatFormat struct {
	Type       string      `json:"type"`
	JSONSchema *textFormat `json:"json_schema,omitempty"`
}

// request returns the same request as one for a response.
func (r *chatRequest) request() (*request, error) {
	out := &request{
		Model: r.Model, Stream: r.Stream, ToolChoice: r.ToolChoice, ParallelToolCalls: r.ParallelToolCalls,
		Temperature: r.Temperature, TopP: r.TopP, MaxOutputTokens: r.MaxTokens, Store: r.Store,
	}
	if r.MaxCompletionTokens != nil {
		out.MaxOutputTokens = r.MaxCompletionTokens
	}
	for _, t := range r.Tools {
		f := t.Function
		f.Type = t.Type
		out.Tools = append(out.Tools, f)
	}
	if f := r.ResponseFormat; f != nil {
		format := textFormat{}
		if f.JSONSchema != nil {
			format = *f.JSONSchema
		}
		format.Type = f.Type
		out.Text = &textOption{&format}
	}
	switch {
	case r.N != nil && *r.N != 1:
		return nil, refuse("n", "Unsupported value: 'n' can only be 1 here.")
	case r.PresencePenalty != 0:
		return nil, refuse("presence_penalty", "Unsupported value: 'presence_penalty' can only be 0 here.")
	case r.FrequencyPenalty != 0:
		return nil, refuse("frequency_penalty", "Unsupported value: 'frequency_penalty' can only be 0 here.")
	}
	err := out.check()
	return out, err
}

// messages returns the history that a client sends. Leading instructions are the
// prompt of a plain model.
func (r *chatRequest) messages(out *request) ([]session.Message, error) {
	var list []session.Message
	var prompt []string
	for _, c := range r.Messages {
		m := session.Message{Role: session.Role(c.Role), Name: c.Name}
		if len(c.Content) > 0 && string(c.Content) != "null" {
			content, err := parseChatContent(c.Content)
			if err != nil {
				return nil, err
			}
			m.Content = content
		}
		for _, call := range c.ToolCalls {
			m.ToolCalls = append(m.ToolCalls, session.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: json.RawMessage(call.Function.Arguments)})
		}
		switch m.Role {
		case session.RoleSystem, session.RoleDeveloper:
			if len(list) == 0 && !strings.HasPrefix(r.Model, agentPrefix) {
				prompt = append(prompt, m.Content.Text())
				continue
			}
		case session.RoleTool:
			m.ToolResult, m.Content = &session.ToolResult{CallID: c.ToolCallID, Content: m.Content.Text()}, nil
		case session.RoleUser, session.RoleAssistant:
		default:
			return nil, refuse("messages", "'%s' is not a role of a message.", c.Role)
		}
		list = append(list, m)
	}
	if len(prompt) > 0 {
		text := strings.Join(prompt, "\n\n")
		out.Instructions = &text
	}
	return list, nil
}

// parseChatContent reads content, whose images are objects here.
func parseChatContent(raw json.RawMessage) (session.Content, error) {
	var parts []struct {
		Type     string `json:"type"`
		ImageURL *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return parseContent("messages.content", raw)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var content session.Content
	for i, p := range parts {
		if p.Type == "image_url" && p.ImageURL != nil {
			content = append(content, protocol.MediaPart(session.PartImage, p.ImageURL.URL, ""))
			continue
		}
		one, err := parseContent("messages.content", append(append([]byte("["), list[i]...), ']'))
		if err != nil {
			return nil, err
		}
		content = append(content, one...)
	}
	return content, nil
}

func createCompletion(x *exchange) error {
	var r chatRequest
	if err := x.decode(&r); err != nil {
		return err
	}
	out, err := r.request()
	if err != nil {
		return err
	}
	messages, err := r.messages(out)
	if err != nil {
		return err
	}
	h := &chatHistory{creation: &creation{exchange: x, request: out, input: newInput(messages, nil), hash: x.requestHash(r)}}
	s, t, done, err := h.begin(x.Request.Context())
	if err != nil {
		return err
	}
	defer x.attended.add(t)()
	if !out.stored() {
		defer x.forget(x.Request.Context(), t.SessionID, done)
	}
	c := &completion{id: "chatcmpl-" + s.ID() + "_" + responseID(t)[strings.LastIndex(responseID(t), "_")+1:], created: x.Now().Unix(), model: r.Model}
	if r.Stream {
		return x.streamCompletion(c, t, r.StreamOptions != nil && r.StreamOptions.IncludeUsage, done)
	}
	steps, err := x.Wait(x.Request.Context(), t)
	if err != nil {
		return err
	}
	protocol.AwaitSaved(x.Request.Context(), done)
	for _, step := range steps {
		c.step(step)
	}
	if c.failed != nil {
		return c.failed
	}
	return x.Write(c.object())
}

// completion turns the steps of a turn into a chat completion.
type completion struct {
	id      string
	created int64
	model   string
	send    func(chatDelta, *string) bool // nil: it is not streamed

	text    strings.Builder
	item    string // the one that text is of
	sent    int    // bytes of its text
	calls   []chatCall
	usage   chatUsage
	finish  string
	failed  error
	dropped bool
	gone    bool
}

type chatDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

type chatUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}

type chatChoice struct {
	Index        int        `json:"index"`
	Message      *chatSaid  `json:"message,omitempty"`
	Delta        *chatDelta `json:"delta,omitempty"`
	FinishReason *string    `json:"finish_reason"`
	Logprobs     *struct{}  `json:"logprobs"`
}

type chatSaid struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	ToolCalls []chatCall `json:"tool_calls,omitempty"`
}

type chatObject struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

func (c *completion) object() chatObject {
	said := &chatSaid{Role: "assistant", ToolCalls: c.calls}
	if text := c.text.String(); text != "" || len(c.calls) == 0 {
		said.Content = &text
	}
	return chatObject{ID: c.id, Object: "chat.completion", Created: c.created, Model: c.model, Usage: &c.usage, Choices: []chatChoice{{Message: said, FinishReason: &c.finish}}}
}

// chatGap stands between what a model says before and after its tools run.
const chatGap = "\n\n"

// step takes one step in. It reports whether to go on.
func (c *completion) step(s protocol.Step) bool {
	for _, change := range s.Changes {
		c.show(change)
	}
	if s.End {
		c.end(s.Record.Change)
	}
	return !c.gone && !c.dropped
}

func (c *completion) show(change projector.Change) {
	i := change.Item
	switch {
	case i.Unit != "":
	case i.Message != nil && i.Message.Role == session.RoleAssistant:
		c.said(change)
	case i.Pending != nil && change.Op == projector.Added:
		c.asked(i.Pending.PendingCall)
	case i.Usage != nil && change.Op == projector.Added:
		c.usage.PromptTokens += i.Usage.Usage.Input
		c.usage.CompletionTokens += i.Usage.Usage.Output
		c.usage.TotalTokens = c.usage.PromptTokens + c.usage.CompletionTokens
		if i.Usage.FinishReason == "length" {
			c.finish = "length"
		}
	case i.Status != nil && len(i.Status.Errors) > 0:
		c.failed = problem.New(502, "execution_failed", i.Status.Errors[len(i.Status.Errors)-1].Message)
	}
}

func (c *completion) said(change projector.Change) {
	i := change.Item
	if change.Op == projector.Withdrawn {
		c.dropped = c.item == i.ID && c.sent > 0
		return
	}
	if c.item != i.ID {
		c.item, c.sent = i.ID, 0
	}
	text := i.Message.Text
	if change.Op == projector.Finished {
		text = text[min(c.sent, len(text)):]
	}
	if text == "" {
		return
	}
	if c.sent == 0 && c.text.Len() > 0 {
		text = chatGap + text
		c.sent -= len(chatGap)
	}
	c.sent += len(text)
	c.say(text)
}

func (c *completion) say(text string) {
	c.text.WriteString(text)
	if c.send != nil && !c.gone {
		c.gone = !c.send(chatDelta{Content: &text}, nil)
	}
}

// asked shows a call that waits for the client. An approval has no form here, so
// it is said.
func (c *completion) asked(p session.PendingCall) {
	if p.Kind == session.PendingApproval {
		text := "The call of " + p.Tool + " waits for an approval: holdfast pending"
		if c.text.Len() > 0 {
			text = chatGap + text
		}
		c.say(text)
		return
	}
	call := chatCall{ID: p.CallID, Type: "function", Function: chatFunction{Name: p.Tool, Arguments: string(p.Arguments)}}
	c.finish = "tool_calls"
	if c.send != nil && !c.gone {
		index, streamed := len(c.calls), call
		streamed.Index = &index
		c.gone = !c.send(chatDelta{ToolCalls: []chatCall{streamed}}, nil)
	}
	c.calls = append(c.calls, call)
}

func (c *completion) end(change session.Change) {
	finished, ok := change.(session.ExecutionFinished)
	if ok && finished.Status == session.ExecutionStopped {
		c.finish = "length"
	}
	if c.finish == "" {
		c.finish = "stop"
	}
	if !ok || finished.Status != session.ExecutionFailed {
		c.failed = nil // it was tried again
	} else if c.failed == nil {
		c.failed = problem.New(502, "execution_failed", "the model failed")
	}
	if c.send != nil && c.failed == nil && !c.gone {
		c.gone = !c.send(chatDelta{}, &c.finish)
	}
}

// streamCompletion sends the chunks of a chat completion. Where a model failed in
// the middle of an answer the stream ends with an error: what was sent of it
// cannot be taken back.
func (x *exchange) streamCompletion(c *completion, t protocol.Turn, withUsage bool, done <-chan error) error {
	return x.WriteEvents(func(out *sse.Writer) error {
		chunk := chatObject{ID: c.id, Object: "chat.completion.chunk", Created: c.created, Model: c.model}
		c.send = func(d chatDelta, finish *string) bool {
			chunk.Choices = []chatChoice{{Delta: &d, FinishReason: finish}}
			return out.Send("", "", chunk)
		}
		empty := ""
		c.gone = !c.send(chatDelta{Role: "assistant", Content: &empty}, nil)
		err := x.Stream(t, out, done, c.step)
		if c.dropped {
			err = problem.New(502, "execution_failed", "the model failed in the middle of its answer and is asked again; send the request again to get it")
		} else if err == nil {
			err = c.failed
		}
		if p := problem.Of(err); p != nil {
			said, _ := errorOf(p)
			out.Send("", "", struct {
				Error apiError `json:"error"`
			}{said})
			return err
		}
		if withUsage {
			chunk.Choices, chunk.Usage = []chatChoice{}, &c.usage
			out.Send("", "", chunk)
		}
		out.SendText("[DONE]")
		return nil
	})
}
