package holdfast

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

type envKey struct{}

func withEnv(ctx context.Context, e *Environment) context.Context {
	return context.WithValue(ctx, envKey{}, e)
}

// Env is what an action may use while it runs, bound to its session and
// lease. It is nil outside an action.
func Env(ctx context.Context) *Environment {
	e, _ := ctx.Value(envKey{}).(*Environment)
	return e
}

// Environment is an action's way to the clock, the agent loop, the open tail
// and the inbox. There is no way to a store.
type Environment struct {
	x       *execution
	base    int64 // last change this execution knows to be durable
	written bool  // the message to send is in the tail already
	broken  bool  // a write failed: what is durable stays open

	arrived map[string][]store.Key // keys of messages in the inbox, by item
	answers *AnswerStream          // of the turn that runs; nil: none does

	info   session.Info          // of the session as it was loaded
	policy *session.MemoryPolicy // of its definition
}

// Now is the runtime's clock.
func (e *Environment) Now() time.Time { return e.x.rt.config.Now() }

// NewID is a fresh id.
func (e *Environment) NewID() string { return e.x.rt.config.NewID() }

// Append makes the pending changes of s durable in the open tail, before the
// version is made. It needs the lease: the action's Leased method must say so.
// On a store without tails they stay pending.
func (e *Environment) Append(ctx context.Context, s session.Session) (session.Session, error) {
	return e.append(ctx, s, nil)
}

// append writes keys with the changes they stand for.
func (e *Environment) append(ctx context.Context, s session.Session, keys []store.Key) (session.Session, error) {
	rt := e.x.rt
	if rt.leases != nil && e.x.access.fence == 0 && e.x.access.awaited == nil {
		return s, &session.InvalidError{Field: "action", Reason: e.x.action.Name() + " writes to the tail but does not say that it is Leased"}
	}
	s, err := rt.mask(s)
	if err != nil {
		return s, err
	}
	if e.answers != nil {
		for _, r := range session.Unsaved(s) {
			e.answers.beforeAppend(r.Change)
		}
	}
	if rt.tails == nil {
		return s, nil
	}
	for _, r := range session.Unsaved(s) {
		if taken, ok := r.Change.(session.InboxTaken); ok {
			keys = append(slices.Clip(keys), e.arrived[taken.ItemID]...)
		}
	}
	next, err := e.x.access.append(ctx, rt, s, keys)
	if err != nil {
		e.broken = true
		return s, err
	}
	e.base = session.Base(next)
	return next, nil
}

// Run continues the session's open execution to its end, as SendMessage does,
// or until calls wait for responses. An ExecutionError comes with a session
// worth returning. Adjust may change what the loop works with.
func (e *Environment) Run(ctx context.Context, s session.Session, adjust ...func(*agent.Config)) (session.Session, error) {
	e.answers = e.x.rt.openAnswers(e.x.ref, "", func() int64 { return e.base }, e.x.opts.stream)
	defer e.answers.Close()
	c := e.loop()
	for _, change := range adjust {
		change(&c)
	}
	return e.x.rt.config.Loop.Run(ctx, c, s)
}

// Inbox lists what has arrived and is not taken; empty on a store without one.
func (e *Environment) Inbox(ctx context.Context) ([]store.Item, error) {
	if e.x.rt.inboxes == nil {
		return nil, nil
	}
	return e.x.rt.inboxes.Inbox(ctx, e.x.ref)
}

// loop is the agent loop's view of the runtime.
func (e *Environment) loop() agent.Config {
	rt := e.x.rt
	c := agent.Config{
		Journal: e, Now: rt.config.Now, NewID: rt.config.NewID, Retries: *rt.config.ModelRetries, Backoff: rt.config.Backoff,
		Model: func(s session.Session) (string, llm.Model, error) { return rt.model(s.Model()) },
		Tools: func(ctx context.Context, s session.Session) (tool.Set, error) { return rt.executionTools(ctx, s) },
		System: func(s session.Session) string {
			return rt.systemPrompt(s)
		},
		Notify: e.notify, Fit: rt.fit, Count: rt.count, Recall: e.recall, MaxResult: rt.config.MaxToolResult,
		PendingTimeout: rt.config.PendingTimeout,
	}
	if rt.config.Permissions != nil {
		c.Gate = e.x.rt.NewGate(*rt.config.Permissions)
	}
	if e.answers != nil {
		c.Stream = e.answers.Emit
	}
	if rt.inboxes != nil {
		c.Inbox, c.Cancel = incoming{e}, e.cancelled
	}
	return c
}

// incoming is the inbox as the agent loop sees it.
type incoming struct{ e *Environment }

// Waiting reads the inbox.
func (in incoming) Waiting(ctx context.Context) ([]agent.Incoming, error) {
	items, err := in.e.Inbox(ctx)
	if err != nil {
		return nil, err
	}
	arrived := make([]agent.Incoming, 0, len(items))
	for _, item := range items {
		next := agent.Incoming{ID: item.ID, Kind: string(item.Kind)}
		switch item.Kind {
		case store.ItemFollowUp:
			in.e.followUp(&next, item)
		case store.ItemResponse:
			next.Response, next.Unusable = responseOf(item)
		case store.ItemCancel:
			next.Cancel, next.ExecutionID = true, item.Payload.String("executionId")
		}
		arrived = append(arrived, next)
	}
	return arrived, nil
}

// short is a call that is over before anybody could want to cancel it. Looking
// at the inbox beside each would cost more than it brings.
const short = 50 * time.Millisecond

// cancelled waits until the inbox holds a cancel for an execution. A ring that
// was lost costs no more than the pause between two renewals of the lease.
func (e *Environment) cancelled(ctx context.Context, executionID string) error {
	rt := e.x.rt
	if err := rt.await(ctx, nil, short); err != nil {
		return err
	}
	ring, stop := rt.bell(e.x.ref)
	defer stop()
	pause := rt.config.Poll
	if rt.wakes != nil {
		pause = rt.config.Lease / 3
	}
	asked := func(i store.Item) bool { return i.Kind == store.ItemCancel && cancels(i, executionID) }
	for {
		items, err := rt.inboxes.Inbox(ctx, e.x.ref)
		if err == nil && slices.ContainsFunc(items, asked) {
			return nil
		}
		if err := rt.await(ctx, ring, pause); err != nil { // an inbox that cannot be read is read again
			return err
		}
	}
}

// cancels reports a cancel that is meant for an execution.
func cancels(i store.Item, executionID string) bool {
	meant := i.Payload.String("executionId")
	return meant == "" || meant == executionID
}

// followUp reads a message from the inbox. One that cannot be sent is dropped:
// it must not keep the session from ever speaking again.
func (e *Environment) followUp(next *agent.Incoming, item store.Item) {
	var m session.Message
	err := json.Unmarshal(item.Payload["message"], &m)
	if err == nil {
		m, err = SendMessage{Message: &m}.message(func() string { return item.ID })
	}
	if err != nil {
		next.Unusable = true
		e.x.rt.config.Logger.Warn("inbox item dropped", "session", e.x.ref.ID, "item", item.ID, "error", e.x.rt.masked(err.Error()))
		return
	}
	next.Message = &m
	var keys []store.Key
	if json.Unmarshal(item.Payload["keys"], &keys) == nil && len(keys) > 0 {
		if e.arrived == nil {
			e.arrived = map[string][]store.Key{}
		}
		e.arrived[item.ID] = keys
	}
}

// notify turns news of the loop into events.
func (e *Environment) notify(n agent.Notice) {
	rt, about := e.x.rt, e.x.rt.about(e.x.ref.ID)
	switch n.Kind {
	case agent.StepStarted:
		e.answers.Begin(n.ExecutionID, n.StepID, n.Attempt)
		rt.bus.emit(StepStarted{About: about, ExecutionID: n.ExecutionID, StepID: n.StepID, Number: n.StepNumber, Model: n.Model})
	case agent.AttemptFailed:
		e.answers.Drop()
		rt.bus.emit(AttemptFailed{About: about, ExecutionID: n.ExecutionID, StepID: n.StepID, Attempt: n.Attempt, Retry: n.Retry})
	case agent.ToolStarted:
		rt.bus.emit(ToolStarted{About: about, StepID: n.StepID, CallID: n.CallID, Tool: n.Tool})
	case agent.ToolFinished:
		rt.bus.emit(ToolFinished{About: about, StepID: n.StepID, CallID: n.CallID, Tool: n.Tool, IsError: n.IsError})
	case agent.StepFinished:
		rt.bus.emit(StepFinished{About: about, StepID: n.StepID})
	case agent.ExecutionFinished:
		rt.bus.emit(ExecutionFinished{About: about, ExecutionID: n.ExecutionID, Status: n.Status, Stop: n.Stop})
	}
}
