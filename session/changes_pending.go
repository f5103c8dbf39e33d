package session

import "slices"

// CallPending says that a call waits for a response.
type CallPending struct {
	Call    PendingCall `json:"call"`
	Seconds float64     `json:"seconds,omitempty"` // a workflow run has worked, in all
}

// Kind is call_pending.
func (CallPending) Kind() string { return "call_pending" }

func (c CallPending) normal() (Change, error) {
	var err error
	if c.Call, err = c.Call.normal(); err != nil {
		return nil, err
	}
	return c, checkSpent("pending", Usage{}, 0, c.Seconds)
}

func (c CallPending) fold(b *body, t recordTime) error {
	if c.Call.Unit == "" && !b.st.Execution.Open() {
		return invalid("execution", "no execution is open for the pending call %s", quoted(c.Call.ID))
	}
	err := b.enterUnit(c, c.Call.Unit, t, func(w *Workflow) { w.Seconds = max(w.Seconds, c.Seconds) })
	if err == nil {
		b.addPending(c.Call, t)
	}
	return err
}

// addPending adds a pending call. One with the same id is replaced, and so is
// the question that the spec of a run asked in the same place before.
func (b *body) addPending(call PendingCall, t recordTime) {
	if call.AskedAt.IsZero() {
		call.AskedAt = t.at
	}
	list := slices.Clone(b.st.Pending)
	i := slices.IndexFunc(list, func(p PendingCall) bool {
		return p.ID == call.ID || p.BySpec() && call.BySpec() && p.Unit == call.Unit
	})
	if i >= 0 {
		list[i] = call
	} else {
		list = append(list, call)
	}
	b.setPending(list)
}

// CallResponded settles a pending call. An approved call stays in the session
// until it has its result; every other action comes with the call's result in
// the same append.
type CallResponded struct {
	Response Response `json:"response"`
	Unit     string   `json:"unit,omitempty"`
}

// Kind is call_responded.
func (CallResponded) Kind() string { return "call_responded" }

func (c CallResponded) normal() (Change, error) {
	cleanAll(&c.Unit)
	var err error
	c.Response, err = c.Response.normal()
	return c, err
}

func (c CallResponded) fold(b *body, t recordTime) error {
	i := slices.IndexFunc(b.st.Pending, func(p PendingCall) bool { return p.ID == c.Response.PendingID && p.Waiting() })
	err := b.enterUnit(c, c.Unit, t, func(w *Workflow) {
		if i >= 0 && b.st.Pending[i].BySpec() {
			w.answered(c.Unit)
		}
	})
	if err != nil {
		return err
	}
	if i < 0 {
		return invalid("pendingId", "no call %s waits for a response", quoted(c.Response.PendingID))
	}
	call := b.st.Pending[i]
	if err := call.Kind.takes(c.Response.Action); err != nil {
		return err
	}
	if call.Unit != c.Unit {
		return invalid("unit", "the pending call %s belongs to unit %s, not %s", quoted(call.ID), quoted(call.Unit), quoted(c.Unit))
	}
	list := slices.Clone(b.st.Pending)
	if c.Response.Action == RespondApprove {
		response := c.Response
		list[i].Response = &response
	} else {
		list = slices.Delete(list, i, i+1)
	}
	b.setPending(list)
	b.st.Responses = append(slices.Clone(b.st.Responses[max(0, len(b.st.Responses)-maxResponses+1):]), c.Response.short())
	return nil
}

// ExecutionWaiting stops an execution whose calls wait for responses. It
// occupies no process; ExecutionContinued takes it up again.
type ExecutionWaiting struct {
	ActiveSeconds float64 `json:"activeSeconds"`
}

// Kind is execution_waiting.
func (ExecutionWaiting) Kind() string { return "execution_waiting" }

func (c ExecutionWaiting) normal() (Change, error) {
	return c, checkSpent("execution", Usage{}, 0, c.ActiveSeconds)
}

func (c ExecutionWaiting) fold(b *body, _ recordTime) error {
	return b.updateExecution(func(e *Execution) error {
		e.Status, e.ActiveSeconds = ExecutionWaits, c.ActiveSeconds
		return nil
	})
}

// enterUnit adds a change about a unit to the ledger of its run.
func (b *body) enterUnit(c Change, unit string, t recordTime, alter func(w *Workflow)) error {
	if unit == "" {
		return nil
	}
	return b.addToLedger(c, t, func(w *Workflow) error {
		alter(w)
		return nil
	})
}
