package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Statuses of an approval.
const (
	approvalPending   = "pending"
	approvalApproved  = "approved"
	approvalDenied    = "denied"
	approvalExpired   = "expired"
	approvalCancelled = "cancelled"
)

// ApprovalDetails is what an approval keeps beside the record: all that is
// needed to show the question again, and the call it is about.
type ApprovalDetails struct {
	session.PromptContext
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input,omitempty"`
}

// askFor writes the question down: the record, what a prompt shows and that
// the task is blocked are one write. Nothing waits in memory.
func (r *Run) askFor(ctx context.Context, call session.ToolCall, q permission.Request, decided permission.Result) (session.Approval, error) {
	now := millis(r.x.c.Clock())
	prompt := decided.Prompt(q)
	if r.x.c.Rules == nil { // nobody could keep such an answer
		prompt.SuggestedActions = slices.DeleteFunc(prompt.SuggestedActions, func(a session.SuggestedAction) bool {
			return a.Destination != "" && a.Destination != "session"
		})
	}
	a := session.Approval{
		ID: r.x.c.NewID(), TaskID: r.ID(), CallID: call.ID, Type: q.Type, Description: decided.Reason.Summary + " (" + decided.ScopePreview + ")",
		Details: raw(ApprovalDetails{PromptContext: prompt, Tool: call.Name, Input: call.Arguments}),
		Status:  approvalPending, RequestedAt: now,
	}
	if r.x.c.ApprovalTimeout > 0 {
		a.ExpiresAt = now + r.x.c.ApprovalTimeout.Milliseconds()
	}
	return a, r.append(ctx, move{
		changes: []session.Change{event("approval_requested", map[string]any{"approval": a})},
		state:   func(s *session.TaskState) { s.Permissions.LatestPromptContext = &prompt },
		row:     func(row *session.TaskRow) { row.Status, row.TerminalStatus = Blocked, TerminalAwaitingApproval },
	})
}

// approvalFor is the newest approval about a call.
func approvalFor(list []session.Approval, callID string) (session.Approval, bool) {
	for _, a := range slices.Backward(list) {
		if a.CallID == callID {
			return a, true
		}
	}
	return session.Approval{}, false
}

// What became of an answer.
const (
	ReplyHandled    = "handled"
	ReplyDuplicate  = "duplicate"   // the same was answered before
	ReplyNotFound   = "not_found"   // there is no such approval
	ReplyInProgress = "in_progress" // whoever works on the task will take it
)

// Reply is what became of an answer, and the task after it.
type Reply struct {
	Result string `json:"result"`
	Row    Row    `json:"row"`
}

// RespondOptions say what follows an answer.
type RespondOptions struct {
	GoOn  bool // a denied call does not pause the task: the model is told
	NoRun bool // the answer is written and the task is left to whoever resumes it
}

// Respond answers an approval, from any process. The first answer counts: the
// same again is a duplicate, another one an ApprovalResolvedError. An allowed
// call runs once, and the task goes on until it comes to rest again; a denied
// one leaves it paused. The row says what has become of a task that was ended
// at the same time. An answer that is to be kept as a rule is refused,
// with the approval as it was, when the rule cannot be kept.
func (x *Executor) Respond(ctx context.Context, id, approvalID, action, by string, o RespondOptions) (Reply, error) {
	s, err := x.load(ctx, id)
	if err != nil {
		return Reply{}, err
	}
	a, err := x.answerable(s, approvalID)
	if err != nil {
		return x.replied(ctx, id, ReplyNotFound, err)
	}
	if _, asks := InputOf(a); asks {
		return x.replied(ctx, id, "", &session.InvalidError{Field: "approval", Reason: "it is a question: answer it"})
	}
	said := answer{ApprovalID: approvalID, Action: action, By: by, GoOn: o.GoOn, Mark: x.c.NewID(), At: millis(x.c.Clock())}
	if a.Status != approvalPending {
		return x.answeredBefore(ctx, id, a, said)
	}
	if overdue(a, said.At) {
		return x.answeredLate(ctx, id, approvalID)
	}
	rule, err := x.ruleOf(s, a, action)
	if err != nil {
		return x.replied(ctx, id, "", err)
	}
	kept := false
	if rule != nil && rule.Source != session.SourceSession {
		if kept, err = x.c.Rules.Add(ctx, workspaceOf(s), *rule); err != nil {
			return x.replied(ctx, id, "", err)
		}
	}
	first, err := x.post(ctx, id, said)
	if err != nil {
		return Reply{}, err
	}
	if first != nil { // somebody else was faster
		if kept && first.Action != action {
			_, err = x.c.Rules.Remove(ctx, workspaceOf(s), *rule)
		}
		if err != nil {
			return Reply{}, err
		}
		return x.answeredBefore(ctx, id, *first, said)
	}
	return x.carryAnswer(ctx, id, approvalID, o)
}

// answerable finds an approval of a task that has not ended.
func (x *Executor) answerable(s session.Session, approvalID string) (session.Approval, error) {
	if row := *s.Info().Task; Ended(row) {
		return session.Approval{}, &session.TaskError{ID: s.ID(), Status: Canonical(row), Err: session.ErrTaskTerminal}
	}
	if a, ok := answeredIn(s, approvalID); ok {
		return a, nil
	}
	return session.Approval{}, fmt.Errorf("%w: %q of task %q", session.ErrApprovalNotFound, approvalID, s.ID())
}

// answeredIn finds an approval of a task, answered or not.
func answeredIn(s session.Session, approvalID string) (session.Approval, bool) {
	if t := s.Task(); t != nil {
		for _, a := range t.Approvals {
			if a.ID == approvalID {
				return a, true
			}
		}
	}
	return session.Approval{}, false
}

func (x *Executor) replied(ctx context.Context, id, result string, err error) (Reply, error) {
	if errors.Is(err, session.ErrTaskTerminal) {
		result = ""
	}
	row, err := x.after(ctx, id, err)
	return Reply{Result: result, Row: row}, err
}

// answeredBefore is what a second answer is told.
func (x *Executor) answeredBefore(ctx context.Context, id string, a session.Approval, said answer) (Reply, error) {
	if said.same(a) {
		return x.replied(ctx, id, ReplyDuplicate, nil)
	}
	return x.replied(ctx, id, "", &session.ApprovalResolvedError{ID: a.ID, Action: orText(a.Action, a.Status)})
}

// answeredLate is what an answer is told whose time is over.
func (x *Executor) answeredLate(ctx context.Context, id, approvalID string) (Reply, error) {
	err := x.hold(ctx, id, func(ctx context.Context, r *Run) error { return x.expire(ctx, r) })
	if err != nil && !errors.Is(err, session.ErrBusy) {
		return Reply{}, err
	}
	return x.replied(ctx, id, "", &session.ApprovalResolvedError{ID: approvalID, Action: approvalExpired})
}

func overdue(a session.Approval, now int64) bool { return a.ExpiresAt > 0 && a.ExpiresAt <= now }

// ruleOf is the rule an answer asks to be kept, nil for none. An answer that
// was not offered is refused.
func (x *Executor) ruleOf(s session.Session, a session.Approval, action string) (*session.Rule, error) {
	var d ApprovalDetails
	if len(a.Details) > 0 {
		if err := json.Unmarshal(a.Details, &d); err != nil {
			return nil, &session.CorruptError{ID: s.ID(), Path: "approvals", Reason: err.Error()}
		}
	}
	i := slices.IndexFunc(d.SuggestedActions, func(s session.SuggestedAction) bool { return s.Action == action })
	if i < 0 {
		if action == permission.AllowOnce || action == permission.DenyOnce {
			return nil, nil
		}
		return nil, &session.InvalidError{Field: "action", Reason: fmt.Sprintf("%q is not among the answers that were offered", action)}
	}
	offered := d.SuggestedActions[i]
	if offered.Destination == "" || d.Scope == nil {
		return nil, nil
	}
	sources := map[string]string{"session": session.SourceSession, "workspace": session.SourceWorkspaceDB, "profile": session.SourceProfile}
	rule := session.Rule{
		ID: x.c.NewID(), Source: sources[offered.Destination], Effect: offered.Effect, Scope: *d.Scope, CreatedAt: millis(x.c.Clock()),
	}
	rule, err := permission.CheckRule(rule)
	if err != nil {
		return nil, err
	}
	if rule.Source == session.SourceSession {
		_, _, err = s.Task().Permissions.WithRule(rule)
	} else if x.c.Rules == nil {
		err = &session.UnsupportedError{Store: "this program", Ability: "keeping rules of a " + offered.Destination}
	}
	return &rule, err
}

// workspaceOf is where a task works.
func workspaceOf(s session.Session) Workspace {
	row := s.Info().Task
	w := Workspace{ID: row.WorkspaceID, Root: row.WorkspacePath}
	if t := s.Task(); t != nil {
		w.Capabilities = t.Settings.Capabilities
	}
	return w
}

// takeAnswers has every answer in the inbox take effect, each with a version.
// GoOn says that nothing is left to be asked and the task may go on.
func (x *Executor) takeAnswers(ctx context.Context, r *Run) (goOn bool, err error) {
	if Ended(r.row()) {
		return false, nil
	}
	items, err := x.rt.Inbox(ctx, r.ID())
	if err != nil {
		return false, err
	}
	for _, item := range items {
		if item.Kind != store.ItemApproval {
			continue
		}
		if err := x.takeAnswer(ctx, r, item); err != nil {
			return false, err
		}
	}
	if err := x.expire(ctx, r); err != nil {
		return false, err
	}
	return waits(r.row()) && pending(r.state().Approvals) == 0, nil
}

func (x *Executor) takeAnswer(ctx context.Context, r *Run, item store.Item) error {
	taken := session.InboxTaken{ItemID: item.ID, ItemKind: string(item.Kind)}
	said, ok := answerOf(item)
	i := slices.IndexFunc(r.state().Approvals, func(a session.Approval) bool { return a.ID == said.ApprovalID && a.Status == approvalPending })
	if !ok || i < 0 { // of a run that is over
		return r.append(ctx, move{changes: []session.Change{taken}})
	}
	a := r.state().Approvals[i]
	if overdue(a, said.At) {
		return r.append(ctx, move{changes: []session.Change{taken}})
	}
	if _, asks := InputOf(a); asks {
		return x.takeInput(ctx, r, taken, a, said)
	}
	rule, err := x.ruleOf(r.session(), a, said.Action)
	if err != nil {
		x.c.Warn("the answer to approval %s is not kept as a rule: %v", a.ID, err)
		rule = nil
	}
	var d ApprovalDetails
	_ = json.Unmarshal(a.Details, &d) // it could be read when it was written
	a.ResolvedAt = millis(x.c.Clock())
	name := said.resolve(&a)
	m := move{changes: []session.Change{taken, event(name, map[string]any{"approval": a})}, state: func(s *session.TaskState) {
		if d.Scope != nil {
			s.Permissions = s.Permissions.WithAnswer(d.Scope.Fingerprint())
		}
		s.Permissions.LatestPromptContext = nil
	}}
	if rule != nil {
		_, added, err := r.state().Permissions.WithRule(*rule)
		if rule.Source != session.SourceSession || err == nil && added {
			m.changes = append(m.changes, event("permission_rule_added", map[string]any{"rule": rule}))
		}
	}
	if a.Status == approvalDenied {
		m.changes = append(m.changes, r.refusedCall(a.CallID, deniedByUserText)...)
		if !said.GoOn {
			m = m.and(pausing(userDeniedText))
		}
	}
	return r.seal(ctx, "task.approval", m)
}

// pausing is a row that waits for its user.
func pausing(why string) move {
	return move{
		changes: []session.Change{event("task_paused", map[string]any{"message": why})},
		row: func(row *session.TaskRow) {
			row.Status, row.TerminalStatus, row.Error, row.AwaitingUserInputReasonCode = Paused, TerminalNeedsUser, why, ""
		},
	}
}

// expire ends the approvals whose time is over.
func (x *Executor) expire(ctx context.Context, r *Run) error {
	if Ended(r.row()) {
		return nil
	}
	now := millis(x.c.Clock())
	var m move
	for _, a := range r.state().Approvals {
		if a.Status != approvalPending || !overdue(a, now) {
			continue
		}
		a.Status, a.ResolvedAt = approvalExpired, now
		m.changes = append(m.changes, event("approval_expired", map[string]any{"approval": a}))
		m.changes = append(m.changes, r.refusedCall(a.CallID, approvalOverText)...)
	}
	if len(m.changes) == 0 {
		return nil
	}
	return r.seal(ctx, "task.approval", m.and(pausing(approvalOverText)))
}
