package holdfast

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

const (
	defaultDepth = 3
	spawnName    = "spawn_subagent"
)

// spawnTool is the tool by which an agent gives work to another one. The other has
// a session of its own, whose id follows from the parent's and the call's: a
// call that runs again finds the same child and continues it.
type spawnTool struct {
	rt    *Runtime
	names []string
}

// Spec describes the tool. Its choices are the subagents of the definition.
func (t spawnTool) Spec() tool.Spec {
	choices, err := json.Marshal(t.names)
	if err != nil {
		choices = []byte("[]") // names are plain text and always encode
	}
	return tool.Spec{
		Name: spawnName, Nature: tool.Idempotent, Parallel: true, Effects: tool.Read,
		Description: "Give a piece of work to another agent and get its answer. It knows nothing of this conversation but the prompt.",
		Schema: fmt.Appendf(nil, `{"type":"object","properties":{"subagent":{"type":"string","enum":%s},"prompt":{"type":"string"}},`+
			`"required":["subagent","prompt"],"additionalProperties":false}`, choices),
	}
}

// Call runs the other agent to its answer.
func (t spawnTool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	var work struct {
		Subagent string `json:"subagent"`
		Prompt   string `json:"prompt"`
	}
	dec := json.NewDecoder(bytes.NewReader(c.Arguments))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&work); err != nil {
		return tool.Result{}, &session.InvalidError{Field: "arguments", Reason: err.Error()}
	}
	tail := agent.WriterOf(ctx)
	if tail == nil {
		return tool.Result{}, &session.InvalidError{Field: "tool", Reason: spawnName + " runs inside an execution only"}
	}
	parent, err := tail.Write(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	def, err := t.rt.childDefinition(ctx, parent, c.ID, work.Subagent, t.names)
	if err != nil {
		return tool.Result{}, err
	}
	id := SubagentID(parent, c.ID)
	if err := t.rt.createChild(ctx, parent, id, def); err != nil {
		return tool.Result{}, err
	}
	t.rt.bus.emit(SubagentStarted{About: t.rt.about(parent.ID()), CallID: c.ID, Agent: work.Subagent, ChildID: id})
	result, err := t.rt.runChild(ctx, id, c.ID, work.Prompt)
	t.rt.bus.emit(SubagentFinished{About: t.rt.about(parent.ID()), CallID: c.ID, Agent: work.Subagent, ChildID: id, IsError: err != nil || result.IsError})
	return result, err
}

// SubagentID returns the id of the session of a subagent that a call gives work
// to: the same for the same call, and for no other.
func SubagentID(parent session.Session, callID string) string {
	sum := sha256.Sum256([]byte(parent.AgentID() + "\x00" + parent.ID() + "\x00" + callID))
	return "sub-" + hex.EncodeToString(sum[:16])
}

// openSpawns returns the calls by which a session gave work to others and that
// have no result yet, in their order.
func openSpawns(s session.Session) []string {
	if !s.Running() {
		return nil
	}
	var calls []string
	for _, step := range s.Execution().Steps {
		for _, e := range step.ToolExecutions {
			if e.ToolName == spawnName && e.CompletedAt == nil {
				calls = append(calls, e.CallID)
			}
		}
	}
	return calls
}

// openChildren returns the ids of the children that a session waits for.
func openChildren(s session.Session) []string {
	var ids []string
	for _, call := range openSpawns(s) {
		ids = append(ids, SubagentID(s, call))
	}
	return ids
}

// endOrphans ends the children that a session waited for before an action and
// no longer waits for. One that cannot be ended is left to Recover.
func (rt *Runtime) endOrphans(ctx context.Context, before, after session.Session) {
	children := openChildren(before)
	if len(children) == 0 {
		return
	}
	still := openChildren(after)
	for _, id := range children {
		if slices.Contains(still, id) {
			continue
		}
		if err := rt.Cancel(ctx, id); err != nil && !errors.Is(err, session.ErrNothingToDo) && !errors.Is(err, session.ErrNotFound) {
			rt.config.Logger.Warn("subagent not ended", "session", id, "error", rt.redactText(err.Error()))
		}
	}
}

// createChild creates the child, unless an earlier run of the same call has.
func (rt *Runtime) createChild(ctx context.Context, parent session.Session, id string, def session.Definition) error {
	info := parent.Info()
	_, err := creation{rt: rt, id: id, action: "create", put: rt.store.Create, build: func() (session.Session, error) {
		return session.New(session.Identity{
			ID: id, AgentID: rt.config.NewID(), Tenant: info.Tenant, UserID: info.UserID, ParentID: info.ID, ParentAgentID: parent.AgentID(),
			Origin: session.OriginSubagent, Depth: info.Depth + 1,
		}, def, session.Seed{}, rt.config.Now())
	}}.run(ctx)
	var conflict *session.ConflictError
	if !errors.As(err, &conflict) || conflict.Reason != session.ReasonExists {
		return err
	}
	child, err := rt.store.Info(ctx, store.Ref{Tenant: info.Tenant, ID: id})
	if err == nil && (child.ParentID != info.ID || child.Origin != session.OriginSubagent) {
		err = conflict
	}
	return err
}

// runChild has the child answer. A call that runs again gets the answer that
// was given, or continues where the child was interrupted. An error is either a
// refusal, of which the model is told because nothing has happened, or an
// UnfinishedError: told of that, a model would give the work to a second child.
func (rt *Runtime) runChild(ctx context.Context, id, callID, prompt string) (tool.Result, error) {
	work, done := rt.childContext(ctx, id)
	child, err := rt.sendPrompt(work, id, callID, prompt)
	done()
	if errors.Is(err, session.ErrAfterSave) && !errors.Is(err, session.ErrExecutionFailed) {
		rt.config.Logger.Warn("subagent answered, then a hook failed", "session", id, "error", rt.redactText(err.Error()))
		err = nil
	}
	if err == nil {
		result := childResult(child)
		if child.Waiting() {
			result.Pending = &session.PendingCall{Kind: session.PendingResult, ChildID: id, Prompt: "the subagent waits for a response"}
		}
		return result, nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	err = fmt.Errorf("subagent session %s: %w", id, err)
	switch {
	case errors.Is(err, session.ErrExecutionFailed):
		return childResult(child), err
	case ctx.Err() == nil && !rt.refusedUntouched(ctx, id, err):
		return tool.Result{ChildSessionID: id}, &agent.UnfinishedError{Err: err}
	}
	return tool.Result{ChildSessionID: id}, err
}

// refusedUntouched reports an error that says that a child was not to run, and
// left nothing of a run behind.
func (rt *Runtime) refusedUntouched(ctx context.Context, id string, err error) bool {
	refusals := []error{
		session.ErrHook, session.ErrInvalid, session.ErrStatus, session.ErrDefinition, session.ErrNotFound, session.ErrCorrupt,
		session.ErrNewerFormat, session.ErrUnsupported, session.ErrSecret,
	}
	var conflict *session.ConflictError
	if !slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) }) &&
		(!errors.As(err, &conflict) || conflict.Reason != session.ReasonKeyReused) {
		return false
	}
	child, err := rt.store.Load(ctx, store.Ref{Tenant: rt.who.Tenant, ID: id}, rt.tails != nil)
	return err == nil && !child.Running() || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNewerFormat)
}

// childResult is what a subagent's last execution came to.
func childResult(child session.Session) tool.Result {
	id := child.ID()
	result := tool.Result{ChildSessionID: id}
	if e := child.Execution(); e != nil {
		result.Spent = &session.Spent{Steps: len(e.Steps) + e.ChildSteps, Usage: e.Usage, Cost: e.Cost}
	}
	if result.Content = child.Reply(); strings.TrimSpace(result.Content) == "" {
		stop := "it said nothing"
		if e := child.Execution(); e != nil && e.Stop != nil {
			stop = fmt.Sprintf("%s: %s", e.Stop.Reason, e.Stop.Message)
		}
		result.Content, result.IsError = fmt.Sprintf("subagent session %s gave no answer (%s)", id, stop), true
	}
	return result
}

// respondToParent brings the answer of a subagent that had waited to the call
// of its parent, and continues the parent. A parent that is running takes the
// answer from its inbox.
func (rt *Runtime) respondToParent(ctx context.Context, child session.Session) error {
	info := child.Info()
	if info.Origin != session.OriginSubagent || info.ParentID == "" || len(child.State().Responses) == 0 || child.Running() {
		return nil
	}
	parent, err := rt.store.Load(ctx, store.Ref{Tenant: info.Tenant, ID: info.ParentID}, rt.tails != nil)
	if errors.Is(err, session.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range parent.PendingCalls() {
		if p.ChildID != info.ID || !p.Waiting() {
			continue
		}
		result := childResult(child)
		err := rt.Respond(ctx, info.ParentID, session.Response{
			PendingID: p.ID, Action: session.RespondResult, Text: result.Content, IsError: result.IsError, Spent: result.Spent,
		})
		if err != nil {
			return err
		}
		if parent.Info().Kind != session.KindChat {
			return nil // its own package continues it
		}
		_, err = rt.Execute(ctx, info.ParentID, ContinueExecution{}, OnBusy(Reject))
		if errors.Is(err, session.ErrBusy) || errors.Is(err, session.ErrInvalid) { // somebody else continues it, or other calls still wait
			err = nil
		}
		return err
	}
	return nil
}

// childContext is the context of a child's execution. It ends with its
// parent's call. When the parent's execution ends, by a cancel or because its
// time is over, the child is cancelled instead, so that it comes to an end of
// its own. The caller calls done.
func (rt *Runtime) childContext(ctx context.Context, id string) (work context.Context, done func()) {
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		finishing, done := store.Finish(work)
		defer done()
		if !agent.Ended(ctx) || rt.Cancel(finishing, id) != nil { // it may not have begun
			end(context.Cause(ctx))
		}
	})
	return work, func() {
		if !stop() {
			<-over
		}
		end(nil)
	}
}

// sendPrompt sends the prompt once, however often it is called.
func (rt *Runtime) sendPrompt(ctx context.Context, id, callID, prompt string) (session.Session, error) {
	if rt.keys != nil {
		return rt.Execute(ctx, id, SendMessage{Text: prompt}, IdempotencyKey(callID))
	}
	child, err := rt.store.Load(ctx, store.Ref{Tenant: rt.who.Tenant, ID: id}, rt.tails != nil)
	switch {
	case err != nil:
		return child, err
	case child.Running() || child.HasTail():
		return rt.Execute(ctx, id, ContinueExecution{})
	case child.Len() > 0:
		return child, nil
	}
	return rt.Execute(ctx, id, SendMessage{Text: prompt})
}
