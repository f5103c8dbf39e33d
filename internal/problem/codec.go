package problem

import (
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// describe fills in the members that Err needs to make the error again.
func (p *Problem) describe(err error) {
	var (
		execution *session.ExecutionError
		after     *session.AfterSaveError
		unknown   *session.UnknownOutcomeError
		queued    *session.QueuedError
		stopped   *session.InterruptedError
		hook      *session.HookError
		conflict  *session.ConflictError
		missing   *session.NotFoundError
		status    *session.StatusError
		busy      *session.BusyError
		responded *session.RespondedError
		ambiguous *session.AmbiguousError
		fenced    *session.FencedError
		corrupt   *session.CorruptError
		task      *session.TaskError
		nothing   *session.NothingToDoError
		lacks     *session.UnsupportedError
		spec      *session.SpecError
		block     *session.BlockError
	)
	switch {
	case p.is("execution_failed") && errors.As(err, &execution):
		p.ID, p.Version, p.Execution, p.Cause = execution.ID, execution.Version, execution.ExecutionID, Of(execution.Err)
	case p.is("after_save") && errors.As(err, &after):
		p.ID, p.Version, p.Stage, p.Hook, p.Cause = after.ID, after.Version, string(after.Stage), after.Hook, Of(after.Err)
	case p.is("unknown_outcome") && errors.As(err, &unknown):
		p.ID, p.Reason, p.Cause = unknown.ID, unknown.CommitID, Of(unknown.Err)
	case p.is("queued") && errors.As(err, &queued):
		p.ID, p.InboxID = queued.ID, queued.InboxID
	case p.is("interrupted") && errors.As(err, &stopped):
		p.ID, p.Seq, p.Cause = stopped.ID, stopped.Seq, Of(stopped.Err)
	case p.is("hook_refused") && errors.As(err, &hook):
		p.Stage, p.Hook, p.Cause = string(hook.Stage), hook.Hook, Of(hook.Err)
	case p.is("conflict") && errors.As(err, &conflict):
		p.What, p.ID, p.Reason, p.Want, p.Have = conflict.What, conflict.ID, string(conflict.Reason), conflict.Want, conflict.Have
		p.Code = "conflict_" + p.Reason
		if s, ok := conflictStatus[conflict.Reason]; ok {
			p.Status = s
		}
	case p.is("not_found") && errors.As(err, &missing):
		p.What, p.ID, p.Available = missing.What, missing.ID, missing.Available
	case p.is("wrong_status") && errors.As(err, &status):
		p.ID, p.StatusName, p.Action = status.ID, string(status.Status), status.Action
	case p.is("busy") && errors.As(err, &busy):
		p.ID, p.Holder = busy.ID, busy.Holder
		if !busy.Until.IsZero() {
			p.Until = &busy.Until
		}
	case p.is("responded") && errors.As(err, &responded):
		p.ID, p.Response = responded.ID, &responded.Response
	case p.is("ambiguous") && errors.As(err, &ambiguous):
		p.ID, p.Available = ambiguous.Ref, ambiguous.Candidates
	case p.is("fenced") && errors.As(err, &fenced):
		p.ID, p.Want, p.Have = fenced.ID, fenced.Token, fenced.Have
	case p.is("corrupt") && errors.As(err, &corrupt):
		p.ID, p.Reason = corrupt.ID, corrupt.Reason
	case (p.is("task_ended") || p.is("not_resumable")) && errors.As(err, &task):
		p.ID, p.StatusName, p.Reason = task.ID, task.Status, task.Reason
	case p.is("nothing_to_do") && errors.As(err, &nothing):
		p.ID, p.What = nothing.ID, nothing.What
	case p.is("unsupported") && errors.As(err, &lacks):
		p.ID, p.What = lacks.Store, lacks.Ability
	case p.is("block") && errors.As(err, &block):
		p.ID, p.Reason, p.Have, p.Want = block.Block, string(block.Reason), int64(block.Have), int64(block.Want)
	case p.is("invalid_spec") && errors.As(err, &spec):
		p.ID, p.Errors = spec.File, fieldErrors(err)
	default:
		p.Errors = fieldErrors(err)
	}
}

// fieldErrors lists everything that is wrong with a request.
func fieldErrors(err error) []FieldError {
	var (
		invalid *session.InvalidError
		def     *session.DefinitionError
		spec    *session.SpecError
		rule    *session.RuleError
	)
	switch {
	case errors.As(err, &def):
		list := make([]FieldError, len(def.Problems))
		for i, p := range def.Problems {
			list[i] = FieldError{p.Field, p.Message}
		}
		return list
	case errors.As(err, &spec):
		list := []FieldError{{spec.Pointer, spec.Reason}}
		for _, p := range spec.Also {
			list = append(list, FieldError{p.Pointer, p.Reason})
		}
		return list
	case errors.As(err, &rule):
		return []FieldError{{rule.Field, rule.Reason}}
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // several things at once
		var list []FieldError
		for _, one := range joined.Unwrap() {
			list = append(list, fieldErrors(one)...)
		}
		return list
	}
	if errors.As(err, &invalid) {
		return []FieldError{{invalid.Field, invalid.Reason}}
	}
	return nil
}

// Err returns the error that the problem was made of, with the types of the
// domain. A problem that the domain does not know is returned as it is; it
// matches the sentinel of its code.
func (p *Problem) Err() error {
	if p == nil {
		return nil
	}
	switch {
	case p.is("execution_failed"):
		return &session.ExecutionError{ID: p.ID, Version: p.Version, ExecutionID: p.Execution, Err: p.Cause.Err()}
	case p.is("after_save"):
		return &session.AfterSaveError{ID: p.ID, Version: p.Version, Stage: session.Stage(p.Stage), Hook: p.Hook, Err: p.Cause.Err()}
	case p.is("unknown_outcome"):
		return &session.UnknownOutcomeError{ID: p.ID, CommitID: p.Reason, Err: p.Cause.Err()}
	case p.is("queued"):
		return &session.QueuedError{ID: p.ID, InboxID: p.InboxID}
	case p.is("interrupted") && p.ID != "":
		return &session.InterruptedError{ID: p.ID, Seq: p.Seq, Err: p.Cause.Err()}
	case p.is("hook_refused"):
		return &session.HookError{Stage: session.Stage(p.Stage), Hook: p.Hook, Err: p.Cause.Err()}
	case p.is("conflict"):
		return &session.ConflictError{What: p.What, ID: p.ID, Reason: session.ConflictReason(p.Reason), Want: p.Want, Have: p.Have}
	case p.is("not_found"):
		return &session.NotFoundError{What: p.What, ID: p.ID, Available: p.Available}
	case p.is("wrong_status"):
		return &session.StatusError{ID: p.ID, Status: session.Status(p.StatusName), Action: p.Action}
	case p.is("busy"):
		busy := &session.BusyError{ID: p.ID, Holder: p.Holder}
		if p.Until != nil {
			busy.Until = p.Until.In(time.UTC)
		}
		return busy
	case p.is("responded") && p.Response != nil:
		return &session.RespondedError{ID: p.ID, Response: *p.Response}
	case p.is("ambiguous"):
		return &session.AmbiguousError{Ref: p.ID, Candidates: p.Available}
	case p.is("fenced"):
		return &session.FencedError{ID: p.ID, Token: p.Want, Have: p.Have}
	case p.is("corrupt"):
		return &session.CorruptError{ID: p.ID, Reason: p.Reason}
	case p.is("task_ended"):
		return &session.TaskError{ID: p.ID, Status: p.StatusName, Reason: p.Reason, Err: session.ErrTaskTerminal}
	case p.is("not_resumable"):
		return &session.TaskError{ID: p.ID, Status: p.StatusName, Reason: p.Reason, Err: session.ErrNotResumable}
	case p.is("nothing_to_do"):
		return &session.NothingToDoError{ID: p.ID, What: p.What}
	case p.is("unsupported") && p.What != "":
		return &session.UnsupportedError{Store: p.ID, Ability: p.What}
	case p.is("block"):
		return &session.BlockError{Block: p.ID, Reason: session.BlockReason(p.Reason), Have: int(p.Have), Want: int(p.Want)}
	case p.is("invalid_spec") && len(p.Errors) > 0:
		spec := &session.SpecError{File: p.ID, Pointer: p.Errors[0].Field, Reason: p.Errors[0].Reason}
		for _, e := range p.Errors[1:] {
			spec.Also = append(spec.Also, session.SpecProblem{Pointer: e.Field, Reason: e.Reason})
		}
		return spec
	case p.is("invalid") && len(p.Errors) > 0:
		list := make([]error, len(p.Errors))
		for i, e := range p.Errors {
			list[i] = &session.InvalidError{Field: e.Field, Reason: e.Reason}
		}
		if len(list) == 1 {
			return list[0]
		}
		return errors.Join(list...)
	case p.is("rule") && len(p.Errors) > 0:
		return &session.RuleError{Field: p.Errors[0].Field, Reason: p.Errors[0].Reason}
	case p.is("invalid_definition") && len(p.Errors) > 0:
		problems := make([]session.Problem, len(p.Errors))
		for i, e := range p.Errors {
			problems[i] = session.Problem{Field: e.Field, Message: e.Reason}
		}
		return &session.DefinitionError{Problems: problems}
	}
	return p
}
