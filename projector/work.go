package projector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// pendingChange shows calls and questions that wait for a response.
func (p *Projector) pendingChange(c session.Change, at Item) bool {
	switch c := c.(type) {
	case session.CallPending:
		p.ask(c.Call, at)
	case session.CallResponded:
		p.respond(c.Unit, c.Response, at)
	case session.QuestionPut:
		p.ask(c.Question.Call(), at)
	case session.QuestionAnswered:
		r := session.Response{PendingID: session.QuestionID(c.Unit), Action: session.RespondAnswer, Text: c.Response}
		if c.TimedOut {
			r.Action = session.RespondExpire
		}
		p.respond(c.Unit, r, at)
	default:
		return false
	}
	return true
}

// ask shows a pending call. Asked again, it takes the place of the first.
func (p *Projector) ask(c session.PendingCall, at Item) {
	at.ID, at.Type, at.Unit, at.StepID = "pending/"+c.ID, TypePending, c.Unit, c.StepID
	if at.ExecutionID = cmp.Or(c.ExecutionID, at.ExecutionID); c.Unit != "" {
		at.ExecutionID = cmp.Or(c.ExecutionID, c.Unit)
	}
	if c.AskedAt.IsZero() {
		c.AskedAt = at.At
	}
	at.Pending = &Pending{PendingCall: c}
	if c.CallID != "" {
		call := p.call(at, c.CallID, anyCall)
		p.changeCall(call, at.without(), c.CallID, c.Tool, func(call *Call) { call.State = CallWaiting })
		if call == nil {
			call = p.call(at, c.CallID, anyCall)
		}
		at.Pending.Item = call.id
	}
	if e := p.waiting(c.Unit, c.ID); e != nil {
		seq := at.Seq
		at.ID, at.Seq = e.id, e.item().Seq
		p.update(e, seq, at)
		return
	}
	p.add(at)
}

// without returns the place of an item and nothing of the item.
func (i Item) without() Item {
	return Item{SessionID: i.SessionID, Unit: i.Unit, ExecutionID: i.ExecutionID, StepID: i.StepID, Seq: i.Seq, At: i.At}
}

func (p *Projector) waiting(unit, id string) *entry {
	return p.last(pendingKey, func(i Item) bool { return !i.Done && i.Pending.ID == id && i.Unit == unit })
}

// respond shows the response to a pending call.
func (p *Projector) respond(unit string, r session.Response, at Item) {
	e := p.waiting(unit, r.PendingID)
	if e == nil {
		return
	}
	i := e.item()
	pending := *i.Pending
	pending.Response, i.Pending, i.Done = &r, &pending, true
	p.update(e, at.Seq, i)
	call := p.ids[pending.Item]
	if pending.Item == "" || call == nil || !call.shown || call.item().Call.State != CallWaiting {
		return
	}
	p.changeCall(call, at, pending.CallID, pending.Tool, func(c *Call) { c.State = CallCalled })
}

// settle ends what waits and matches: nobody will respond.
func (p *Projector) settle(match func(Item) bool, seq int64) {
	for _, e := range p.index[pendingKey] {
		if i := e.states[e.now].item; e.shown && !i.Done && match(i) {
			i.Done = true
			p.update(e, seq, i)
		}
	}
}

// workflowChange shows how far a run and its units have come.
func (p *Projector) workflowChange(c session.Change, at Item) bool {
	s := Status{Event: c.Kind()}
	switch c := c.(type) {
	case session.UnitStarted:
		p.work(c.Unit, at, func(w *Work) { w.Agent, w.Lane, w.State, w.StartedAt = c.Agent, c.Lane, WorkRunning, at.At })
		return true
	case session.UnitFinished:
		p.work(c.Unit, at, func(w *Work) {
			w.Agent, w.State, w.EndedAt, w.Result, w.Error = cmp.Or(c.Agent, w.Agent), WorkFinished, at.At, c.Result, nil
		})
		return true
	case session.UnitFailed:
		p.work(c.Unit, at, func(w *Work) {
			w.Agent, w.State, w.EndedAt, w.Error = cmp.Or(c.Agent, w.Agent), WorkFailed, at.At, &c.Error
		})
		return true
	case session.UnitsReset:
		p.resetUnits(c.Units, at)
		return true
	case session.WorkflowRowChanged:
		s.Status, s.Name, s.Message = c.Workflow.Status, c.Workflow.Name, c.Workflow.Error
	case session.ArtifactWritten:
		s.Name = c.Path
	case session.BudgetWarned:
		s.Name, s.Used, s.Limit = c.Budget, c.Used, c.Limit
	case session.WorkflowBegun, session.WorkflowSpecChanged:
	default:
		return false
	}
	at.ExecutionID = ""
	p.status(at, s, false)
	return true
}

// work shows a unit after a change. A unit that failed or was finished and is
// worked on again goes on with its item.
func (p *Projector) work(unit string, at Item, change func(*Work)) {
	e := p.last(unitKey(unit), anyItem)
	i := Item{ID: "unit/" + unit, Type: TypeUnit, SessionID: p.id, Unit: unit, ExecutionID: unit, Seq: at.Seq, At: at.At, Work: &Work{State: WorkRunning, StartedAt: at.At}}
	if e != nil {
		i = e.item()
	}
	w := *i.Work
	change(&w)
	i.Work, i.Done = &w, w.State == WorkFinished || w.State == WorkFailed
	if e != nil {
		p.update(e, at.Seq, i)
	} else {
		p.add(i)
	}
}

// resetUnits shows units whose work was taken back. What waited there waits no more.
func (p *Projector) resetUnits(units []string, at Item) {
	p.settle(func(i Item) bool { return slices.Contains(units, i.Unit) }, at.Seq)
	for _, unit := range units {
		if p.last(unitKey(unit), anyItem) != nil {
			p.work(unit, at, func(w *Work) { w.State, w.Result, w.Error, w.Input = WorkReset, nil, nil, "" })
		}
	}
}

// advance counts what a unit uses.
func (p *Projector) advance(in session.UnitAdvanced, at Item) {
	p.work(in.Unit, at, func(w *Work) {
		w.Agent, w.State, w.Error = cmp.Or(w.Agent, in.Agent), WorkRunning, nil
		switch c := in.Change.(type) {
		case session.InferenceAnswered:
			w.Usage, w.Cost = w.Usage.Plus(c.Usage), w.Cost+c.Cost
			w.ActiveSeconds += c.ActiveSeconds
			w.Estimated = w.Estimated || in.Estimated
		case session.ToolFinished:
			if c.Spent != nil {
				w.Usage, w.Cost = w.Usage.Plus(c.Spent.Usage), w.Cost+c.Spent.Cost
			}
		}
	})
}

// unitInput keeps what a unit was asked.
func (p *Projector) unitInput(m session.Message, at Item) {
	if m.Unit == "" || m.Role != session.RoleUser {
		return
	}
	e := p.last(unitKey(m.Unit), anyItem)
	if e != nil && e.item().Work.Input == "" {
		p.work(m.Unit, at, func(w *Work) { w.Input = m.Content.Text() })
	}
}

// taskEvent shows an event of a task.
func (p *Projector) taskEvent(c session.TaskEvent, at Item) {
	var told struct {
		Message   string             `json:"message"`
		Reason    string             `json:"reason"`
		Error     string             `json:"error"`
		Tool      string             `json:"tool"`
		Path      string             `json:"path"`
		Plan      *session.Plan      `json:"plan"`
		Step      *session.PlanStep  `json:"step"`
		Checklist *session.Checklist `json:"checklist"`
		Approval  *approval          `json:"approval"`
	}
	if json.Unmarshal(c.Data, &told) != nil { // an event of another shape says what it says
		told.Plan, told.Step, told.Checklist, told.Approval = nil, nil, nil, nil
	}
	t := Task{Event: c.Name, Text: cmp.Or(told.Message, told.Reason, told.Error), Tool: told.Tool, Path: told.Path}
	at.Type = TypeTask
	switch {
	case told.Approval != nil && told.Approval.ID != "":
		p.approval(*told.Approval, at)
	case told.Plan != nil:
		t.Plan = told.Plan
		p.taskItem(t, at, false)
	case told.Step != nil:
		t.Step = told.Step
		p.taskItem(t, at, c.Name != "step_started")
		p.planStep(*told.Step, c.Name, at)
	case told.Checklist != nil:
		t.Checklist = told.Checklist
		p.taskItem(t, at, false)
	default:
		t.Data = c.Data
		at.ID, at.Done, at.Task = fmt.Sprintf("task/%d", at.Seq), true, &t
		p.add(at)
	}
}

const planKey = "plan"

func (t Task) key() string {
	switch {
	case t.Plan != nil:
		return planKey
	case t.Step != nil:
		return "step/" + t.Step.ID
	case t.Checklist != nil:
		return "checklist"
	}
	return ""
}

// taskItem updates the one item of a plan, a step or a checklist.
func (p *Projector) taskItem(t Task, at Item, done bool) {
	at.ID, at.Task, at.Done = t.key(), &t, done
	e := p.last(t.key(), anyItem)
	if e == nil {
		p.add(at)
		return
	}
	seq, was := at.Seq, e.item()
	at.ID, at.Seq, at.At = was.ID, was.Seq, was.At
	p.update(e, seq, at)
}

// planStep shows the plan with a step as it is.
func (p *Projector) planStep(s session.PlanStep, event string, at Item) {
	e := p.last(planKey, anyItem)
	if e == nil {
		return
	}
	before := e.item().Task.Plan
	plan := session.Plan{Description: before.Description, Steps: slices.Clone(before.Steps)}
	i := slices.IndexFunc(plan.Steps, func(o session.PlanStep) bool { return o.ID == s.ID })
	if i < 0 {
		return
	}
	plan.Steps[i] = s
	p.taskItem(Task{Event: event, Plan: &plan}, at, false)
}

// approval is what a log of an earlier version has in place of a pending call.
type approval struct {
	ID          string          `json:"id"`
	Description string          `json:"description"`
	Details     json.RawMessage `json:"details"`
	Status      string          `json:"status"`
	ExpiresAt   int64           `json:"expiresAt"`
	Action      string          `json:"action"`
	By          string          `json:"by"`
}

// approval shows what a task asks a person to allow, as a pending call.
func (p *Projector) approval(a approval, at Item) {
	if a.Status == "pending" {
		c := session.PendingCall{ID: a.ID, Kind: session.PendingApproval, Prompt: a.Description, Details: a.Details, AskedAt: at.At}
		if a.ExpiresAt > 0 {
			expires := time.UnixMilli(a.ExpiresAt).UTC()
			c.ExpiresAt = &expires
		}
		at.ID, at.Type, at.Pending = "pending/"+a.ID, TypePending, &Pending{PendingCall: c}
		p.add(at)
		return
	}
	actions := map[string]session.ResponseAction{
		"approved": session.RespondApprove, "denied": session.RespondDeny, "expired": session.RespondExpire, "cancelled": session.RespondCancel,
	}
	p.respond("", session.Response{PendingID: a.ID, Action: actions[a.Status], Choice: a.Action, By: a.By}, at)
}
