package holdfast

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Memory is the memory of a session: what was said in it, and what is
// remembered for it, its user and its agent.
func (rt *Runtime) Memory(ctx context.Context, id string) (memory.Handle, error) {
	info, err := rt.Info(ctx, id)
	if err != nil {
		return nil, err
	}
	h := rt.memory(info)
	h.who.Name, h.who.Role = rt.who.Actor, "user"
	return h, nil
}

// Memory is the memory of the session that the action runs on, as its agent
// may use it: in the scopes that its definition allows. Inside a tool, what is
// stored for the session goes to the open tail; an action that is no tool
// stores it with the session it returns.
func (e *Environment) Memory() memory.Handle { return e.handle() }

func (e *Environment) handle() *memoryHandle {
	h := e.x.rt.memory(e.info)
	h.who.Name, h.who.Role = e.info.AgentName, "agent"
	h.env, h.allowed = e, allowedScopes(e.policy)
	return h
}

// allowedScopes are those an agent may use: the session's alone, unless its
// definition says otherwise.
func allowedScopes(policy *session.MemoryPolicy) []memory.Scope {
	if policy == nil || len(policy.Scopes) == 0 {
		return []memory.Scope{memory.ScopeSession}
	}
	var allowed []memory.Scope
	for _, scope := range policy.Scopes {
		allowed = append(allowed, memory.Scope(scope))
	}
	return allowed
}

func (rt *Runtime) memory(info session.Info) *memoryHandle {
	return &memoryHandle{
		rt: rt, ref: store.Ref{Tenant: info.Tenant, ID: info.ID}, agent: info.AgentName, allowed: memory.Scopes(),
		who: memory.Identity{Tenant: info.Tenant, ID: info.UserID},
	}
}

// Forget removes everything that is remembered for a user, an agent or a space of
// the tenant (scope "space"). What was said in sessions stays there; with
// f.Transcripts nobody finds what a user has said so far. After an error, call it
// again: some may be left.
func (rt *Runtime) Forget(ctx context.Context, f memory.Forgetting) (memory.Forgotten, error) {
	var n memory.Forgotten
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return n, err
	}
	defer done()
	switch {
	case f.Scope == memory.ScopeSession:
		return n, &session.InvalidError{Field: "scope", Reason: "a session's own memory goes with the session"}
	case f.Transcripts && f.Scope != memory.ScopeUser:
		return n, &session.InvalidError{Field: "transcripts", Reason: "are those of a user; give the scope user"}
	case rt.memories == nil:
		return n, rt.unsupported("memory of a user or an agent")
	}
	o := store.Owner{Tenant: rt.who.Tenant, Scope: store.Scope(f.Scope), Name: f.Owner}
	if err := o.Check(); err != nil {
		return n, err
	}
	facts, err := rt.memories.Entries(ctx, o, memory.FactSpace, "", 1)
	if err != nil {
		return n, err
	}
	if f.Transcripts {
		if n.Sessions, err = rt.memories.ForgetTranscripts(ctx, o.Tenant, o.Name, f.DryRun); err != nil {
			return n, err
		}
	}
	n.Entries, err = rt.memories.ForgetAll(ctx, o, f.DryRun)
	if err != nil || f.DryRun || len(facts) == 0 && n.Sessions == 0 {
		return n, err
	}
	return n, rt.markForgotten(ctx, o)
}

// memoryHandle is a session's memory.
type memoryHandle struct {
	rt      *Runtime
	ref     store.Ref
	agent   string
	who     memory.Identity
	allowed []memory.Scope
	env     *Environment // nil: from outside

	now *session.Session // the session where no tail tells; nil: the store does
}

// memoryOf is the agent's memory as of a session that the loop is at work on.
func (e *Environment) memoryOf(s session.Session) *memoryHandle {
	h := e.handle()
	h.now = &s
	return h
}

// SessionID is the session's id.
func (h *memoryHandle) SessionID() string { return h.ref.ID }

// Identity is who uses the handle.
func (h *memoryHandle) Identity() memory.Identity { return h.who }

// owner checks a scope. The owner is that of a user's or an agent's entries.
func (h *memoryHandle) owner(scope memory.Scope) (store.Owner, error) {
	if err := scope.Check(); err != nil {
		return store.Owner{}, err
	}
	space, isSpace := session.Space(string(scope))
	if !slices.Contains(h.allowed, scope) && (!isSpace || h.env != nil) {
		refused := &session.ScopeError{Scope: string(scope)}
		for _, s := range h.allowed {
			refused.Allowed = append(refused.Allowed, string(s))
		}
		return store.Owner{}, refused
	}
	o := store.Owner{Tenant: h.ref.Tenant, Scope: store.ScopeAgent, Name: h.agent}
	switch {
	case isSpace:
		o.Scope, o.Name = store.ScopeSpace, space
	case scope == memory.ScopeSession:
		return o, nil
	case scope == memory.ScopeUser:
		o.Scope, o.Name = store.ScopeUser, h.who.ID
		if o.Name == "" {
			return o, &session.InvalidError{Field: "scope", Reason: "session " + h.ref.ID + " has no user"}
		}
	}
	if h.rt.memories == nil {
		return o, h.rt.unsupported("memory of a user or an agent")
	}
	return o, o.Check()
}

// scopeOf is the scope of an owner's entries.
func scopeOf(o store.Owner) memory.Scope {
	if o.Scope == store.ScopeSpace {
		return memory.ScopeSpace(o.Name)
	}
	return memory.Scope(o.Scope)
}

// usableScopes are the allowed scopes that the session has an owner for.
func (h *memoryHandle) usableScopes() []memory.Scope {
	return slices.DeleteFunc(slices.Clone(h.allowed), func(s memory.Scope) bool { return s == memory.ScopeUser && h.who.ID == "" })
}

// current returns the session as it is now, with the open tail.
func (h *memoryHandle) current(ctx context.Context) (session.Session, error) {
	if h.now != nil {
		return *h.now, nil
	}
	if tail := agent.WriterOf(ctx); tail != nil && h.env != nil {
		return tail.Write(ctx)
	}
	return h.rt.store.Load(ctx, h.ref, h.rt.tails != nil)
}

// History reads messages.
func (h *memoryHandle) History(ctx context.Context, o memory.HistoryOptions) (memory.Page, error) {
	o, err := o.Check()
	if err != nil {
		return memory.Page{}, err
	}
	s, err := h.current(ctx)
	if err != nil {
		return memory.Page{}, err
	}
	if !o.IncludeCleared && !s.Partial() {
		return o.Cut(s.Messages()), nil
	}
	if h.rt.logs == nil {
		return memory.Page{}, h.rt.unsupported("messages that are not in the window")
	}
	traces, counted := s.TraceCount()
	if o.IncludeCleared || o.Selects() || !counted && !o.IncludeTrace { // nobody knows how many there are
		messages, err := h.messages(ctx, s, o, 0, s.Seq()+1)
		return o.Cut(messages), err
	}
	messages, err := h.messagesOfPage(ctx, s, o)
	if err != nil {
		return memory.Page{}, err
	}
	page := o.Cut(messages)
	if page.Total = s.Info().MessageCount; !o.IncludeTrace {
		page.Total -= traces
	}
	return page, nil
}

// messagesOfPage reads as much of the log as a page and one message more take,
// from the side where the page begins.
func (h *memoryHandle) messagesOfPage(ctx context.Context, s session.Session, o memory.HistoryOptions) ([]session.Message, error) {
	enough := o.Offset + o.Limit + 1
	first, end := o.AfterSeq+1, s.Seq()+1 // what is left to read is first to end-1
	if o.BeforeSeq > 0 {
		end = min(end, o.BeforeSeq)
	}
	var messages []session.Message
	for part := int64(4 * enough); first < end && len(messages) < enough; part *= 2 {
		from, to := first, min(end, first+part)
		if o.Order == memory.Newest {
			from, to = max(first, end-part), end
		}
		more, err := h.messages(ctx, s, o, from-1, to)
		if err != nil {
			return nil, err
		}
		if o.Order == memory.Newest {
			messages, end = append(more, messages...), from
		} else {
			messages, first = append(messages, more...), to
		}
	}
	return messages, nil
}

// logPage is how many entries of a log are read at once.
const logPage = 500

// messages reads the messages that the log has between two numbers: those that
// the session shows, or with IncludeCleared all that was ever written.
func (h *memoryHandle) messages(ctx context.Context, s session.Session, o memory.HistoryOptions, after, before int64) ([]session.Message, error) {
	spans := session.Spans(s)
	var messages []session.Message
	for after+1 < before {
		entries, err := h.rt.logs.Log(ctx, h.ref, after, int(min(before-1-after, logPage)))
		if err != nil || len(entries) == 0 {
			return messages, err
		}
		for _, e := range entries {
			after = e.Seq
			added, ok := e.Change.(session.MessageAdded)
			if ok && !e.Discarded && (o.IncludeCleared || session.Holds(spans, e.Seq)) && (o.IncludeTrace || !added.Message.Trace) {
				messages = append(messages, added.Message)
			}
		}
	}
	return messages, nil
}
