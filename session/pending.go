package session

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// PendingKind says what a pending call waits for.
type PendingKind string

// The kinds of pending call.
const (
	PendingApproval PendingKind = "approval" // a person allows or denies the call
	PendingQuestion PendingKind = "question" // a person answers a question
	PendingResult   PendingKind = "result"   // the caller's own program runs the tool
)

// pendingKinds lists every kind.
func pendingKinds() []PendingKind {
	return []PendingKind{PendingApproval, PendingQuestion, PendingResult}
}

// PendingCall is a tool call that waits for something from outside the agent
// loop. It is part of the session, so nothing waits in memory: the response may
// come from any process, days later.
//
// A question that a workflow spec asks has no CallID: no model called a tool.
type PendingCall struct {
	ID          string          `json:"id"` // unique in the session
	Kind        PendingKind     `json:"kind"`
	CallID      string          `json:"callId,omitempty"`
	ExecutionID string          `json:"executionId,omitempty"`
	StepID      string          `json:"stepId,omitempty"`
	Unit        string          `json:"unit,omitempty"` // of a workflow run
	Tool        string          `json:"tool,omitempty"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	Prompt      string          `json:"prompt,omitempty"`  // what a person is asked
	Context     string          `json:"context,omitempty"` // what a person should know to respond
	Diff        string          `json:"diff,omitempty"`    // what an approved call would change, as a unified diff
	ChildID     string          `json:"childId,omitempty"` // the subagent's session that waits, and whose answer is the result
	Choices     []Choice        `json:"choices,omitempty"` // empty: any text answers a question
	Details     json.RawMessage `json:"details,omitempty"` // why it is asked, for views: a PromptContext for approvals
	Default     *string         `json:"default,omitempty"` // the answer once the time is over
	AskedAt     time.Time       `json:"askedAt"`
	ExpiresAt   *time.Time      `json:"expiresAt,omitempty"`

	// Response is set on an approved call until the call has its result.
	Response *Response `json:"response,omitempty"`
}

// Choice is one response that is offered. Rule is what choosing it adds to the
// permissions; nil adds nothing.
type Choice struct {
	Value string `json:"value"`
	Label string `json:"label,omitempty"`
	Rule  *Rule  `json:"rule,omitempty"`
}

// Action returns what choosing it does to a call that waits for an approval,
// "" where that cannot be told.
func (c Choice) Action() ResponseAction {
	switch {
	case c.Rule != nil && c.Rule.Effect == EffectAllow, c.Rule == nil && strings.HasPrefix(c.Value, "allow_"):
		return RespondApprove
	case c.Rule != nil && c.Rule.Effect == EffectDeny, c.Rule == nil && strings.HasPrefix(c.Value, "deny_"):
		return RespondDeny
	}
	return ""
}

// ResponseAction is what a response does to a pending call.
type ResponseAction string

// The actions. People and clients send the first four; the runtime itself
// records that a call expired or was cancelled.
const (
	RespondApprove ResponseAction = "approve"
	RespondDeny    ResponseAction = "deny"
	RespondAnswer  ResponseAction = "answer"
	RespondResult  ResponseAction = "result"
	RespondExpire  ResponseAction = "expire"
	RespondCancel  ResponseAction = "cancel"
)

// Response settles a pending call. The first one counts.
type Response struct {
	PendingID string         `json:"pendingId"`
	Action    ResponseAction `json:"action"`
	Choice    string         `json:"choice,omitempty"`  // the value of the choice that was taken
	Text      string         `json:"text,omitempty"`    // the answer, the result, or the reason of a denial
	IsError   bool           `json:"isError,omitempty"` // the result is an error
	By        string         `json:"by,omitempty"`
	GoOn      bool           `json:"goOn,omitempty"`  // a task is not paused by this denial
	Spent     *Spent         `json:"spent,omitempty"` // by the subagent whose answer this is
}

// takes refuses an action that does not settle a call of this kind.
func (k PendingKind) takes(action ResponseAction) error {
	allowed := []ResponseAction{RespondExpire, RespondCancel, RespondDeny}
	switch k {
	case PendingApproval:
		allowed = append(allowed, RespondApprove)
	case PendingQuestion:
		allowed = append(allowed, RespondAnswer)
	case PendingResult:
		allowed = append(allowed, RespondResult)
	}
	if !slices.Contains(allowed, action) {
		return invalid("action", "%s does not settle a call that waits for %s; use %s", quoted(string(action)), k.noun(), quoted(string(allowed[len(allowed)-1])))
	}
	return nil
}

func (k PendingKind) noun() string {
	switch k {
	case PendingApproval:
		return "an approval"
	case PendingQuestion:
		return "an answer"
	}
	return "a result"
}

// BySpec reports a question that the spec of a workflow run asks: no model
// called a tool.
func (p PendingCall) BySpec() bool { return p.CallID == "" && p.Unit != "" }

// Check refuses a response that this call does not take.
func (p PendingCall) Check(r Response) error {
	if err := p.Kind.takes(r.Action); err != nil {
		return err
	}
	if p.BySpec() && r.Action != RespondAnswer {
		return invalid("action", "%s does not settle a question of a workflow; use %s", quoted(string(r.Action)), quoted(string(RespondAnswer)))
	}
	if r.Choice != "" || r.Action == RespondAnswer && len(p.Choices) > 0 {
		wanted := r.Choice
		wanted = cmp.Or(wanted, r.Text)
		values := make([]string, len(p.Choices))
		for i, c := range p.Choices {
			values[i] = c.Value
		}
		i := slices.Index(values, wanted)
		if i < 0 {
			return invalid("choice", "%s is not offered; choose one of %s", quoted(wanted), listed(values))
		}
		if does := p.Choices[i].Action(); p.Kind == PendingApproval && does != "" && does != r.Action {
			return invalid("choice", "%s does not %s the call; use %s", quoted(wanted), r.Action, quoted(string(does)))
		}
	}
	if r.Action == RespondAnswer && r.Text == "" && !p.BySpec() { // a spec may take the empty text for an answer
		return invalid("text", "an answer is not empty")
	}
	return nil
}

// Expired reports a call whose time is over.
func (p PendingCall) Expired(now time.Time) bool {
	return p.ExpiresAt != nil && !now.Before(*p.ExpiresAt)
}

// Waiting reports a call without a response.
func (p PendingCall) Waiting() bool { return p.Response == nil }

func (p PendingCall) clone() PendingCall {
	p.Arguments, p.Details = slices.Clone(p.Arguments), slices.Clone(p.Details)
	p.Choices = slices.Clone(p.Choices)
	for i, c := range p.Choices {
		if c.Rule != nil {
			rule := c.Rule.Clone()
			p.Choices[i].Rule = &rule
		}
	}
	p.Default, p.ExpiresAt, p.Response = clonePtr(p.Default), clonePtr(p.ExpiresAt), clonePtr(p.Response)
	return p
}

func clonePending(list []PendingCall) []PendingCall {
	if len(list) == 0 {
		return nil
	}
	c := make([]PendingCall, len(list))
	for i, p := range list {
		c[i] = p.clone()
	}
	return c
}

// normal is a deep copy as a session keeps it.
func (p PendingCall) normal() (PendingCall, error) {
	p = p.clone()
	cleanAll(&p.ID, &p.CallID, &p.ExecutionID, &p.StepID, &p.Unit, &p.Tool, &p.Prompt, &p.Context, &p.ChildID)
	if p.ID == "" {
		return p, invalid("pending.id", "is missing")
	}
	if err := oneOf("pending.kind", p.Kind, pendingKinds()); err != nil {
		return p, err
	}
	if p.CallID == "" && p.Unit == "" {
		return p, invalid("pending.callId", "is missing")
	}
	var err error
	for _, raw := range []*json.RawMessage{&p.Arguments, &p.Details} {
		if *raw == nil {
			continue
		}
		if *raw, err = compact("pending", *raw); err != nil {
			return p, err
		}
	}
	for i := range p.Choices {
		cleanAll(&p.Choices[i].Value, &p.Choices[i].Label)
		if rule := p.Choices[i].Rule; rule != nil {
			if *rule, err = rule.Normal(); err != nil {
				return p, err
			}
		}
	}
	if p.Default != nil {
		cleanAll(p.Default)
	}
	p.AskedAt, p.ExpiresAt = Instant(p.AskedAt), instantPtr(p.ExpiresAt)
	if p.Response != nil {
		if *p.Response, err = p.Response.normal(); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (r Response) normal() (Response, error) {
	cleanAll(&r.PendingID, &r.Choice, &r.Text, &r.By)
	if r.Spent = clonePtr(r.Spent); r.Spent != nil {
		if err := checkSpent("response.spent", r.Spent.Usage, r.Spent.Cost, 0); err != nil || r.Spent.Steps < 0 {
			return r, invalid("response.spent", "is negative")
		}
	}
	if r.PendingID == "" {
		return r, invalid("response.pendingId", "is missing")
	}
	return r, oneOf("response.action", r.Action, []ResponseAction{
		RespondApprove, RespondDeny, RespondAnswer, RespondResult, RespondExpire, RespondCancel,
	})
}

// How much of past responses a session keeps.
const (
	maxResponses    = 32
	maxResponseText = 256
)

// short returns the response with the beginning of its text.
func (r Response) short() Response {
	if len(r.Text) > maxResponseText {
		r.Text = strings.ToValidUTF8(r.Text[:maxResponseText], "")
	}
	return r
}

func cloneResponses(list []Response) []Response {
	c := slices.Clone(list)
	for i := range c {
		c[i].Spent = clonePtr(c[i].Spent)
	}
	return c
}

// Same reports a response that says what another says, whoever sent it.
func (r Response) Same(other Response) bool {
	r, other = r.short(), other.short()
	r.By, other.By, r.Spent, other.Spent = "", "", nil, nil
	return r == other
}

// ResponseTo finds the response that settled a pending call, among the last
// ones.
func (s Session) ResponseTo(pendingID string) (Response, bool) {
	for _, r := range slices.Backward(s.b.st.Responses) {
		if r.PendingID == pendingID {
			return r, true
		}
	}
	return Response{}, false
}

// PendingCalls lists the calls that wait for a response, oldest first. Approved
// calls that have not run are among them, with their response.
func (s Session) PendingCalls() []PendingCall { return clonePending(s.b.st.Pending) }

// PendingCall finds a pending call by its id or by the id of its tool call.
func (s Session) PendingCall(id string) (PendingCall, bool) {
	for _, p := range s.b.st.Pending {
		if p.ID == id || p.CallID == id && id != "" {
			return p.clone(), true
		}
	}
	return PendingCall{}, false
}

// Waiting reports an execution that stopped because calls wait for a response.
func (s Session) Waiting() bool {
	return s.b.st.Execution != nil && s.b.st.Execution.Status == ExecutionWaits
}

// setPending replaces the pending calls and the count that listings show.
func (b *body) setPending(list []PendingCall) {
	b.st.Pending, b.info.Pending = nil, 0
	if len(list) == 0 {
		return
	}
	b.st.Pending = list
	for _, p := range list {
		if p.Waiting() {
			b.info.Pending++
		}
	}
}

// dropPending removes the pending calls that match.
func (b *body) dropPending(match func(PendingCall) bool) {
	if slices.ContainsFunc(b.st.Pending, match) {
		b.setPending(slices.DeleteFunc(slices.Clone(b.st.Pending), match))
	}
}
