package openai

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// countRequest asks how many tokens the input of a response has.
type countRequest struct {
	Model              string          `json:"model"`
	Input              json.RawMessage `json:"input"`
	Instructions       *string         `json:"instructions"`
	PreviousResponseID string          `json:"previous_response_id"`
	Conversation       json.RawMessage `json:"conversation"`
	Tools              []functionTool  `json:"tools"`
	ToolChoice         json.RawMessage `json:"tool_choice"`
	ParallelToolCalls  *bool           `json:"parallel_tool_calls"`
	Text               *textOption     `json:"text"`
	Truncation         string          `json:"truncation"`
}

// countInput counts what a model would be sent for a response, with what the
// session has and the agent brings.
func countInput(x *exchange) error {
	var in countRequest
	if err := x.decode(&in); err != nil {
		return err
	}
	r := &request{
		Model: in.Model, Input: in.Input, Instructions: in.Instructions, PreviousResponseID: in.PreviousResponseID, Conversation: in.Conversation,
		Tools: in.Tools, ToolChoice: in.ToolChoice, ParallelToolCalls: in.ParallelToolCalls, Text: in.Text, Truncation: in.Truncation,
	}
	if err := r.check(); err != nil {
		return err
	}
	said, err := x.parseMessages(r.Input)
	if err != nil {
		return err
	}
	s, err := x.counted(r)
	if err != nil {
		return err
	}
	size, err := x.Runtime.MeasureRequest(x.Request.Context(), s, r.clientTools(), said...)
	if err != nil {
		return err
	}
	return x.Write(struct {
		Object      string `json:"object"`
		InputTokens int    `json:"input_tokens"`
	}{"response.input_tokens", size.Tokens()})
}

// counted returns the session that a response would be a turn of, with the model
// and the instructions of the request. Nothing is saved.
func (x *exchange) counted(r *request) (s session.Session, err error) {
	ctx := x.Request.Context()
	conversation, err := r.conversationID()
	switch {
	case err != nil:
		return s, err
	case r.PreviousResponseID != "":
		s, err = x.after(r.PreviousResponseID)
	case conversation != "":
		s, err = x.findConversation(ctx, conversation)
	default:
		def, err := x.definition(r)
		if err != nil {
			return s, err
		}
		return session.New(session.Identity{ID: "counted", AgentID: "counted"}, def, session.Seed{}, x.Now())
	}
	if err != nil {
		return s, err
	}
	actions, err := r.adjustments(s)
	for _, a := range actions {
		switch a := a.(type) {
		case holdfast.ChangeModel:
			s, err = s.WithModel(a.Model, a.Params, x.Now())
		case holdfast.ChangeSystemPrompt:
			s, err = s.WithSystemPrompt(a.Text, x.Now())
		}
		if err != nil {
			return s, err
		}
	}
	return s, err
}

// after returns the session as it was after a response.
func (x *exchange) after(id string) (session.Session, error) {
	s, t, steps, ended, err := x.find(x.Request.Context(), id)
	if err != nil {
		return s, err
	}
	if !ended {
		return s, notEnded(id)
	}
	return x.Runtime.Get(x.Request.Context(), t.SessionID, holdfast.At(steps[len(steps)-1].Record.Version))
}

// compactRequest asks for a summary of what was said.
type compactRequest struct {
	Model              string          `json:"model"`
	Input              json.RawMessage `json:"input"`
	Instructions       *string         `json:"instructions"`
	PreviousResponseID string          `json:"previous_response_id"`
}

// compaction is the object that answers it.
type compaction struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	CreatedAt int64  `json:"created_at"`
	Output    []item `json:"output"`
	Usage     *usage `json:"usage"`
}

// compactPrompt is what a model is asked for a summary with.
const compactPrompt = "Summarise the conversation so far for somebody who will continue it and sees only your summary: what was asked for, what was found, decided and done, and what is still open. Keep names, numbers and wishes. Answer with the summary alone."

// compactResponse asks a model for a summary, in a session of its own. What the
// client gets as encrypted content is the name of that response: the summary
// itself stays here, and belongs to the tenant.
func compactResponse(x *exchange) error {
	var in compactRequest
	if err := x.decode(&in); err != nil {
		return err
	}
	said, err := x.parseMessages(in.Input)
	if err != nil {
		return err
	}
	if in.PreviousResponseID != "" {
		s, err := x.after(in.PreviousResponseID)
		if err != nil {
			return err
		}
		said = append(earlierOf(s), said...)
	}
	if len(said) == 0 {
		return refuse("input", "There is nothing to compact: send 'input' or 'previous_response_id'.")
	}
	r := &request{Model: in.Model, Instructions: in.Instructions}
	if r.Model, err = x.plainModel(in.Model); err != nil {
		return err
	}
	prompt := session.Message{Role: session.RoleUser, Content: session.Text(compactPrompt)}
	c := &creation{exchange: x, request: r, input: input{earlier: session.Sendable(said), message: &prompt}, hash: x.requestHash(in), facts: facts{Compaction: true}}
	s, t, done, err := c.begin(x.Request.Context())
	if err != nil {
		return err
	}
	steps, err := x.Wait(x.Request.Context(), t)
	if err != nil {
		return err
	}
	protocol.AwaitSaved(x.Request.Context(), done)
	final := x.read(s, t, steps)
	if final.Status != "completed" {
		reason := "the model was stopped before it had summarised"
		if final.Error != nil {
			reason = final.Error.Message
		}
		return problem.New(http.StatusBadGateway, "execution_failed", reason)
	}
	out := compaction{ID: final.ID, Object: "response.compaction", CreatedAt: final.CreatedAt, Usage: final.Usage}
	for _, m := range s.Messages() {
		if m.Role == session.RoleUser && m.Seq <= t.After {
			out.Output = append(out.Output, itemOf(m))
		}
	}
	out.Output = append(out.Output, item{ID: "cmp_" + t.SessionID, Type: "compaction", EncryptedContent: final.ID})
	return x.Write(out)
}

// plainModel returns the model of an agent, without its tools and memory.
func (x *exchange) plainModel(name string) (string, error) {
	agent, ok := strings.CutPrefix(name, agentPrefix)
	if !ok {
		return name, nil
	}
	def, err := x.Host.Agent(agent)
	if err != nil {
		return "", missing("Model", name)
	}
	plain, _, err := x.Runtime.Model(def.Model)
	return plain, err
}

// earlierOf returns what was said in a session, for another one to begin with.
func earlierOf(s session.Session) []session.Message {
	var said []session.Message
	for _, m := range s.WindowMessages() {
		said = append(said, session.Message{Role: m.Role, Name: m.Name, Content: m.Content, ToolCalls: m.ToolCalls, ToolResult: m.ToolResult})
	}
	return said
}

// summaryOf returns the summary that a compaction item stands for.
func (x *exchange) summaryOf(at, id string) (session.Message, error) {
	m := session.Message{Role: session.RoleAssistant}
	s, t, steps, ended, err := x.find(x.Request.Context(), id)
	if err != nil || !ended || !factsOf(steps).Compaction {
		return m, refuse(at+".encrypted_content", "It is not of a compaction that this server has made and kept.")
	}
	for _, i := range x.read(s, t, steps).Output {
		for _, p := range i.Content {
			if i.Type == "message" && p.Text != nil {
				m.Content = append(m.Content, session.Part{Type: session.PartText, Text: *p.Text})
			}
		}
	}
	return m, nil
}
