package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Hook is called at six stages of the pipelines. It may return another
// session, which the pipeline continues with, or refuse with an error. It
// returns the session unchanged at stages it has nothing to say to. Env(ctx)
// has the runtime's clock and ids.
//
// A hook fails closed: an error, a panic or a session whose identity was
// changed refuses. Reading permissions must not rest on AfterLoad alone, since
// Info, List, Log and Watch run no hooks: use Runtime.For.
type Hook interface {
	OnStage(ctx context.Context, stage session.Stage, s session.Session) (session.Session, error)
}

// HookFunc is a function as a Hook.
type HookFunc func(ctx context.Context, stage session.Stage, s session.Session) (session.Session, error)

// OnStage calls f.
func (f HookFunc) OnStage(ctx context.Context, stage session.Stage, s session.Session) (session.Session, error) {
	return f(ctx, stage, s)
}

// HookStack is several hooks in order of priority. It is an immutable value;
// the zero value lets every session pass.
type HookStack struct{ hooks []stackedHook }

type stackedHook struct {
	hook     Hook
	priority int
	name     string
}

// With is a stack with one more hook. Higher priorities run first; equal ones
// in the order they were added. The name stands in errors.
func (h HookStack) With(hook Hook, priority int, name string) HookStack {
	at := len(h.hooks)
	for i, other := range h.hooks {
		if other.priority < priority {
			at = i
			break
		}
	}
	return HookStack{hooks: slices.Insert(slices.Clone(h.hooks), at, stackedHook{hook: hook, priority: priority, name: name})}
}

// OnStage passes the session through every hook. The first that refuses ends
// it with a HookError.
func (h HookStack) OnStage(ctx context.Context, stage session.Stage, s session.Session) (session.Session, error) {
	for _, next := range h.hooks {
		out, err := callHook(ctx, next.hook, next.name, stage, s)
		if err != nil {
			return s, err
		}
		s = out
	}
	return s, nil
}

// callHook calls one hook and checks what it returns. Every error is a
// HookError; that of a stack inside a stack names the inner hook.
func callHook(ctx context.Context, hook Hook, name string, stage session.Stage, s session.Session) (out session.Session, err error) {
	defer func() {
		if v := recover(); v != nil {
			out, err = s, &session.HookError{Stage: stage, Hook: name, Err: &session.PanicError{Where: fmt.Sprintf("hook %q", name), Value: v}}
		}
	}()
	out, err = hook.OnStage(ctx, stage, s)
	var known *session.HookError
	switch {
	case errors.As(err, &known):
		return s, err
	case err != nil:
		return s, &session.HookError{Stage: stage, Hook: name, Err: err}
	}
	if err := checkIdentity(s, out); err != nil {
		return s, &session.HookError{Stage: stage, Hook: name, Err: err}
	}
	if s.Status() == session.Deleted && out.Status() != session.Deleted {
		return s, &session.HookError{Stage: stage, Hook: name, Err: &session.InvalidError{Field: "status", Reason: "only RestoreSession leaves deleted"}}
	}
	return out, nil
}

// checkIdentity refuses an output that is another session than the input.
func checkIdentity(before, after session.Session) error {
	if after.IsZero() {
		return &session.InvalidError{Field: "session", Reason: "the zero session was returned"}
	}
	if field := session.ChangedIdentity(before, after); field != "" {
		return &session.InvalidError{Field: field, Reason: "was changed; an action or hook must keep it"}
	}
	return nil
}

// runHooks runs the hooks of one stage.
func (rt *Runtime) runHooks(ctx context.Context, stage session.Stage, s session.Session) (session.Session, error) {
	name := "hook"
	if _, ok := rt.config.Hooks.(HookStack); ok {
		name = "stack"
	}
	info := s.Info()
	env := &Environment{
		x:    &execution{rt: rt, ref: store.Ref{Tenant: info.Tenant, ID: info.ID}},
		info: info, policy: s.Definition().Memory,
	}
	return callHook(withEnv(agent.WithoutWriter(ctx), env), rt.config.Hooks, name, stage, s)
}
