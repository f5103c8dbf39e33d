package holdfast

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

type envKey struct{}

func withEnv(ctx context.Context, e *Environment) context.Context {
	return context.WithValue(ctx, envKey{}, e)
}

// Env returns what an action or a hook may use while it runs, bound to its
// session. It is nil outside of both.
func Env(ctx context.Context) *Environment {
	e, _ := ctx.Value(envKey{}).(*Environment)
	return e
}

// Environment gives actions and hooks the runtime's clock, ids, inbox and
// memory, and actions the agent loop and the open tail. There is no way to a
// store.
type Environment struct {
	x           *execution // in a hook it has no access
	base        int64      // last change this execution knows to be durable
	writeFailed bool       // a write failed: what is durable stays open
	readFailed  bool       // so did reading the inbox
	toolStarted bool       // the tail records a tool that may have taken effect

	itemKeys map[string][]store.Key // keys of messages in the inbox, by item
	keyItems map[string]string      // the item that a key came with
	answers  *AnswerStream          // of the turn that runs; nil: none does

	info   session.Info          // of the session as it was loaded
	policy *session.MemoryPolicy // of its definition
}

// Now is the runtime's clock.
func (e *Environment) Now() time.Time { return e.x.rt.config.Now() }

// NewID is a fresh id.
func (e *Environment) NewID() string { return e.x.rt.config.NewID() }

// Append makes the unsaved changes of s durable in the open tail, before the
// version is made. It needs the lease: the action's Leased method must say so.
// On a store without tails they stay unsaved. Hooks cannot append.
func (e *Environment) Append(ctx context.Context, s session.Session) (session.Session, error) {
	return e.append(ctx, s, nil)
}

// append writes keys with the changes they stand for.
func (e *Environment) append(ctx context.Context, s session.Session, keys []store.Key) (session.Session, error) {
	if err := e.checkInAction("Append"); err != nil {
		return s, err
	}
	rt := e.x.rt
	if rt.leases != nil && e.x.access.fence == 0 && e.x.access.onLease == nil {
		return s, &session.InvalidError{Field: "action", Reason: e.x.action.Name() + " writes to the tail but does not say that it is Leased"}
	}
	s, err := rt.redactSession(s)
	if err != nil {
		return s, err
	}
	pending := session.Unsaved(s)
	if e.answers != nil {
		for _, r := range pending {
			e.answers.beforeAppend(r.Change)
		}
	}
	if rt.tails == nil {
		rt.showWritten(s)
		return s, nil
	}
	for _, r := range pending {
		if taken, ok := r.Change.(session.InboxTaken); ok {
			keys = append(append(slices.Clip(keys), e.itemKeys[taken.ItemID]...), takenKeys(taken)...)
		}
	}
	next, err := e.x.access.append(ctx, rt, s, keys)
	if err != nil {
		e.writeFailed = true
		return s, err
	}
	rt.keysWritten(keys)
	rt.showWritten(s)
	e.base = session.Base(next)
	e.toolStarted = e.toolStarted || slices.ContainsFunc(pending, func(r session.Record) bool {
		_, started := r.Change.(session.ToolStarted)
		return started
	})
	return next, nil
}

// Run continues the session's open execution to its end, as SendMessage does,
// or until calls wait for responses. An ExecutionError comes with a session
// worth returning. Adjust may change what the loop works with.
func (e *Environment) Run(ctx context.Context, s session.Session, adjust ...func(*agent.Config)) (session.Session, error) {
	if err := e.checkInAction("Run"); err != nil {
		return s, err
	}
	e.answers = e.x.rt.openAnswers(e.x.ref, "", func() int64 { return e.base }, e.x.opts.stream)
	defer e.answers.Close()
	c := e.agentConfig()
	for _, change := range adjust {
		change(&c)
	}
	return e.x.rt.config.Loop.Run(ctx, c, s)
}

// checkInAction refuses what a hook cannot do.
func (e *Environment) checkInAction(what string) error {
	if e.x.access == nil {
		return &session.InvalidError{Field: "hook", Reason: what + " is for actions; a hook returns the session it wants instead"}
	}
	return nil
}

// Inbox lists what has arrived and is not taken; empty on a store without one.
func (e *Environment) Inbox(ctx context.Context) ([]store.Item, error) {
	if e.x.rt.inboxes == nil {
		return nil, nil
	}
	return e.x.rt.inboxes.Inbox(ctx, e.x.ref)
}

// agentConfig is the agent loop's view of the runtime.
func (e *Environment) agentConfig() agent.Config {
	rt := e.x.rt
	c := agent.Config{
		Journal: e, Now: rt.config.Now, NewID: rt.config.NewID, Retries: *rt.config.ModelRetries, Backoff: rt.config.Backoff,
		Model: func(s session.Session) (string, llm.Model, error) { return rt.Model(s.Model()) },
		Tools: rt.executionTools, System: rt.SystemPrompt,
		Notify: e.notify, Fit: rt.fitWindow, Count: rt.countUsage, Recall: e.recallFor, MaxResult: rt.config.MaxToolResult,
		PendingTimeout: rt.config.PendingTimeout,
	}
	if rt.config.Permissions != nil {
		c.Gate = rt.NewGate(*rt.config.Permissions)
	}
	if e.answers != nil {
		c.Stream = e.answers.Emit
	}
	if rt.inboxes != nil {
		c.Inbox, c.Cancel = inboxReader{e}, e.awaitCancel
	}
	return c
}

// notify turns news of the loop into events.
func (e *Environment) notify(n agent.Notice) {
	rt, about := e.x.rt, e.x.rt.about(e.x.ref.ID)
	switch n.Kind {
	case agent.StepStarted:
		e.answers.Begin(n.ExecutionID, n.StepID, n.Attempt)
		rt.bus.emit(StepStarted{About: about, ExecutionID: n.ExecutionID, StepID: n.StepID, Number: n.StepNumber, Model: n.Model})
	case agent.AttemptFailed:
		e.answers.Drop(n)
		rt.bus.emit(AttemptFailed{About: about, ExecutionID: n.ExecutionID, StepID: n.StepID, Attempt: n.Attempt, Retry: n.Retry})
	case agent.ToolStarted:
		rt.bus.emit(ToolStarted{About: about, StepID: n.StepID, CallID: n.CallID, Tool: n.Tool})
	case agent.ToolFinished:
		rt.bus.emit(ToolFinished{About: about, StepID: n.StepID, CallID: n.CallID, Tool: n.Tool, IsError: n.IsError})
	case agent.StepFinished:
		rt.bus.emit(StepFinished{About: about, StepID: n.StepID, Model: n.Model, Usage: n.Usage, Cost: n.Cost})
	case agent.ExecutionFinished:
		rt.bus.emit(ExecutionFinished{About: about, ExecutionID: n.ExecutionID, Status: n.Status, Stop: n.Stop})
	}
}
