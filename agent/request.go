package agent

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// fitRequest builds a request that fits the model, if need be after moving the
// window.
func (r *run) fitRequest(ctx context.Context, name string, model llm.Model) (llm.Request, error) {
	r.recollect(ctx)
	request, err := r.request(ctx, name)
	if err != nil || r.Fit == nil {
		return request, err
	}
	next, err := r.Fit(ctx, r.s, model, request)
	if err != nil || next.Seq() == r.s.Seq() {
		return request, err
	}
	r.s = next
	return r.request(ctx, name)
}

// recollect asks memory about the user's last message, once.
func (r *run) recollect(ctx context.Context) {
	if r.Recall == nil {
		return
	}
	asked, ok := lastFromUser(r.s, math.MaxInt64)
	if !ok || asked.ID == r.askedID {
		return
	}
	r.recalled, r.askedID = r.Recall(ctx, r.s, asked), asked.ID
}

// request builds what the model is sent from the session and what memory adds.
func (r *run) request(ctx context.Context, name string) (llm.Request, error) {
	return r.BuildRequest(ctx, r.s, name, r.recalled.Text)
}

// BuildRequest returns what the model of that name is sent for a session.
// Recalled is what memory adds to the system prompt.
func (c Config) BuildRequest(ctx context.Context, s session.Session, name, recalled string) (llm.Request, error) {
	tools, err := c.Tools(ctx, s)
	if err != nil {
		return llm.Request{}, err
	}
	system := s.SystemPrompt()
	if c.System != nil {
		if system, err = c.System(ctx, s); err != nil {
			return llm.Request{}, err
		}
	}
	if recalled != "" {
		system = strings.TrimSpace(system + "\n\n" + recalled)
	}
	request := llm.Request{
		Model: name, System: system, Messages: Transcript(s), Params: s.ModelParams(), ResponseFormat: s.ResponseFormat(),
		Agent: s.Info().AgentName, SessionID: s.ID(), Inference: s.InferenceCount(),
	}
	for _, t := range tools.All() {
		spec := t.Spec()
		request.Tools = append(request.Tools, llm.Tool{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
	}
	if c.Request != nil {
		c.Request(s, &request)
	}
	return request, nil
}

// Transcript returns what a model is sent of a session: the summary, if there
// is one, and the window, in a form every provider accepts. Where the
// definition says so, tool exchanges of earlier executions are left out. A
// window without any message of a user reaches back to the nearest one.
func Transcript(s session.Session) []session.Message {
	shown := s.WindowMessages()
	if m := s.Definition().Memory; m != nil && m.ToolTrace == "current" {
		shown = slices.DeleteFunc(shown, func(m session.Message) bool {
			exchange := m.ToolResult != nil || len(m.ToolCalls) > 0
			return exchange && (!s.Running() || m.ExecutionID != s.Execution().ID)
		})
	}
	if summary := s.Window().Summary; summary != nil {
		first := session.Message{
			ID: fmt.Sprintf("summary-%d-%d", summary.FromSeq, summary.ToSeq), Role: session.RoleUser, CreatedAt: summary.CreatedAt,
			Content: session.Text("Summary of the conversation so far:\n" + summary.Text),
		}
		shown = append([]session.Message{first}, shown...)
	}
	if len(shown) > 0 && !slices.ContainsFunc(shown, fromUser) {
		if m, ok := lastFromUser(s, s.Window().FromSeq); ok {
			shown = append([]session.Message{m}, shown...)
		}
	}
	return session.Sendable(shown)
}

func fromUser(m session.Message) bool { return m.Role == session.RoleUser }

// lastFromUser finds the last message of a user before a number.
func lastFromUser(s session.Session, before int64) (session.Message, bool) {
	for i := s.Len() - 1; i >= 0; i-- {
		if m := s.Message(i); m.Seq < before && fromUser(m) {
			return m, true
		}
	}
	return session.Message{}, false
}
