package holdfast

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

func (e *Environment) handle() *handle {
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

func (rt *Runtime) memory(info session.Info) *handle {
	return &handle{
		rt: rt, ref: store.Ref{Tenant: info.Tenant, ID: info.ID}, agent: info.AgentName, allowed: memory.Scopes(),
		who: memory.Identity{Tenant: info.Tenant, ID: info.UserID},
	}
}

// Forget removes everything that is remembered for a user or an agent of the
// tenant, or with dry only counts it. What was said in sessions stays.
func (rt *Runtime) Forget(ctx context.Context, scope memory.Scope, owner string, dry bool) (int, error) {
	ctx, done, err := rt.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	if scope != memory.ScopeUser && scope != memory.ScopeAgent {
		return 0, &session.InvalidError{Field: "scope", Reason: fmt.Sprintf("%q is not user or agent: a session's own memory goes with it", scope)}
	}
	if rt.memories == nil {
		return 0, rt.unsupported("memory of a user or an agent")
	}
	return rt.memories.ForgetAll(ctx, store.Owner{Tenant: rt.who.Tenant, Scope: store.Scope(scope), Name: owner}, dry)
}

// handle is a session's memory.
type handle struct {
	rt      *Runtime
	ref     store.Ref
	agent   string
	who     memory.Identity
	allowed []memory.Scope
	env     *Environment // nil: from outside

	now *session.Session // the session where no tail tells; nil: the store does
}

// memoryOf is the agent's memory as of a session that the loop is at work on.
func (e *Environment) memoryOf(s session.Session) *handle {
	h := e.handle()
	h.now = &s
	return h
}

// SessionID is the session's id.
func (h *handle) SessionID() string { return h.ref.ID }

// Identity is who uses the handle.
func (h *handle) Identity() memory.Identity { return h.who }

// owner checks a scope. The owner is that of a user's or an agent's entries.
func (h *handle) owner(scope memory.Scope) (store.Owner, error) {
	if err := scope.Check(); err != nil {
		return store.Owner{}, err
	}
	if !slices.Contains(h.allowed, scope) {
		refused := &session.ScopeError{Scope: string(scope)}
		for _, s := range h.allowed {
			refused.Allowed = append(refused.Allowed, string(s))
		}
		return store.Owner{}, refused
	}
	o := store.Owner{Tenant: h.ref.Tenant, Scope: store.ScopeAgent, Name: h.agent}
	switch scope {
	case memory.ScopeSession:
		return o, nil
	case memory.ScopeUser:
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

// session is the session as it is now, the open tail included.
func (h *handle) session(ctx context.Context) (session.Session, error) {
	if h.now != nil {
		return *h.now, nil
	}
	if tail := agent.WriterOf(ctx); tail != nil && h.env != nil {
		return tail.Write(ctx)
	}
	return h.rt.store.Load(ctx, h.ref, h.rt.tails != nil)
}

// Store writes a value.
func (h *handle) Store(ctx context.Context, scope memory.Scope, key string, value any, opts ...memory.Option) (memory.Entry, error) {
	o, err := memory.Collect("Store", opts, "IfVersion")
	if err != nil {
		return memory.Entry{}, err
	}
	owner, err := h.owner(scope)
	if err != nil {
		return memory.Entry{}, err
	}
	raw, err := session.JSON(value)
	if err != nil {
		return memory.Entry{}, err
	}
	if scope == memory.ScopeSession {
		return h.storeVariable(ctx, key, StoreVariable{Key: key, Value: raw, IfVersion: o.IfVersion})
	}
	if raw, err = h.rt.maskJSON(raw); err != nil {
		return memory.Entry{}, err
	}
	memo := store.Memo{Key: h.rt.masked(key), Value: raw, IfVersion: o.IfVersion, At: h.rt.config.Now(), SessionID: h.ref.ID}
	if tail := agent.WriterOf(ctx); tail != nil && h.env != nil {
		memo.CallID = tail.CallID()
	}
	e, err := h.rt.memories.Remember(ctx, owner, memo)
	return entryOf(scope, e), err
}

func entryOf(scope memory.Scope, e store.Entry) memory.Entry {
	return memory.Entry{
		Scope: scope, Key: e.Key, Value: e.Value, Version: e.Version, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, SessionID: e.SessionID,
	}
}

// storeVariable changes what the session remembers for itself: through the
// pipeline from outside, in the open tail from a tool.
func (h *handle) storeVariable(ctx context.Context, key string, action Action) (memory.Entry, error) {
	s, err := h.change(ctx, action)
	if err != nil {
		return memory.Entry{}, err
	}
	e, _ := variable(s, key)
	return e, nil
}

// change carries out an action on the session's own memory.
func (h *handle) change(ctx context.Context, action Action) (session.Session, error) {
	if h.env == nil {
		return h.rt.Execute(ctx, h.ref.ID, action)
	}
	tail := agent.WriterOf(ctx)
	if tail == nil {
		return session.Session{}, &session.InvalidError{Field: "scope", Reason: "an action stores for the session by returning it with the variable"}
	}
	s, err := tail.Write(ctx)
	if err != nil {
		return session.Session{}, err
	}
	next, err := action.Execute(ctx, s)
	if err != nil {
		return session.Session{}, err
	}
	var changes []session.Change
	for _, r := range session.Unsaved(next) {
		changes = append(changes, r.Change)
	}
	return tail.Write(ctx, changes...)
}

// variable is an entry of the session's own.
func variable(s session.Session, key string) (memory.Entry, bool) {
	v, ok := s.Variables()[key]
	if !ok || v.Deleted {
		return memory.Entry{}, false
	}
	return memory.Entry{
		Scope: memory.ScopeSession, Key: key, Value: v.Value, Version: v.Version, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, SessionID: s.ID(),
	}, true
}

// Get reads a value.
func (h *handle) Get(ctx context.Context, scope memory.Scope, key string, opts ...memory.Option) (memory.Entry, bool, error) {
	o, err := memory.Collect("Get", opts, "At")
	if err != nil {
		return memory.Entry{}, false, err
	}
	owner, err := h.owner(scope)
	if err != nil {
		return memory.Entry{}, false, err
	}
	if scope != memory.ScopeSession {
		e, found, err := h.rt.memories.Entry(ctx, owner, key, o.At)
		if err != nil || !found {
			return memory.Entry{}, false, err
		}
		return entryOf(scope, e), true, nil
	}
	if err := store.CheckEntryKey(key); err != nil {
		return memory.Entry{}, false, err
	}
	s, err := h.session(ctx)
	if err != nil {
		return memory.Entry{}, false, err
	}
	e, found := variable(s, key)
	if found && o.At != 0 && o.At != e.Version {
		return h.earlier(ctx, key, o.At)
	}
	return e, found, nil
}

// earlier finds a version of a variable in the log: the newest change that
// made it.
func (h *handle) earlier(ctx context.Context, key string, version int64) (memory.Entry, bool, error) {
	if h.rt.logs == nil {
		return memory.Entry{}, false, h.rt.unsupported("earlier versions of what a session remembers")
	}
	var now session.Variable
	var found memory.Entry
	for after := int64(0); ; {
		entries, err := h.rt.logs.Log(ctx, h.ref, after, 0)
		if err != nil || len(entries) == 0 {
			return found, found.Version > 0, err
		}
		for _, e := range entries {
			after = e.Seq
			if e.Discarded {
				continue
			}
			if next := variableAfter(now, e.Record, key); next.Version != now.Version {
				if now = next; now.Version == version && !now.Deleted {
					found = memory.Entry{
						Scope: memory.ScopeSession, Key: key, Value: now.Value, Version: version, CreatedAt: now.CreatedAt, UpdatedAt: now.UpdatedAt, SessionID: h.ref.ID,
					}
				}
			}
		}
	}
}

// variableAfter is a variable after a change.
func variableAfter(v session.Variable, r session.Record, key string) session.Variable {
	switch c := r.Change.(type) {
	case session.SessionCreated:
		return c.State.Variables[key]
	case session.SessionRewound:
		return c.State.Variables[key]
	case session.VariableStored:
		if c.Key != key {
			return v
		}
		created := v.CreatedAt
		if v.Version == 0 || v.Deleted {
			created = r.At
		}
		return session.Variable{Value: c.Value, Version: v.Version + 1, CreatedAt: created, UpdatedAt: r.At}
	case session.VariableDeleted:
		if c.Key == key && v.Version > 0 && !v.Deleted {
			return session.Variable{Deleted: true, Version: v.Version + 1, CreatedAt: v.CreatedAt, UpdatedAt: r.At}
		}
	}
	return v
}

// Delete removes a key.
func (h *handle) Delete(ctx context.Context, scope memory.Scope, key string, opts ...memory.Option) (bool, error) {
	o, err := memory.Collect("Delete", opts, "IfVersion")
	if err != nil {
		return false, err
	}
	owner, err := h.owner(scope)
	if err != nil {
		return false, err
	}
	if scope != memory.ScopeSession {
		return h.rt.memories.Forget(ctx, owner, key, o.IfVersion)
	}
	if err := store.CheckEntryKey(key); err != nil {
		return false, err
	}
	s, err := h.session(ctx)
	if err != nil {
		return false, err
	}
	e, there := variable(s, key)
	if o.IfVersion != nil && *o.IfVersion != e.Version {
		return false, &session.ConflictError{ID: key, Reason: session.ReasonStaleEntry, Want: *o.IfVersion, Have: e.Version}
	}
	if !there {
		return false, nil
	}
	_, err = h.change(ctx, DeleteVariable{Key: key, IfVersion: o.IfVersion})
	return err == nil, err
}

// Keys lists entries.
func (h *handle) Keys(ctx context.Context, scope memory.Scope, prefix string, p memory.KeyPage) ([]memory.Entry, error) {
	p, err := p.Check()
	if err != nil {
		return nil, err
	}
	owner, err := h.owner(scope)
	if err != nil {
		return nil, err
	}
	if scope != memory.ScopeSession {
		found, err := h.rt.memories.Entries(ctx, owner, prefix, p.After, p.Limit)
		entries := make([]memory.Entry, len(found))
		for i, e := range found {
			entries[i] = entryOf(scope, e)
		}
		return entries, err
	}
	if prefix != "" {
		if err := store.CheckEntryKey(prefix); err != nil {
			return nil, err
		}
	}
	s, err := h.session(ctx)
	if err != nil {
		return nil, err
	}
	entries := []memory.Entry{}
	for _, e := range variables(s) {
		if store.Covers(prefix, e.Key) && e.Key > p.After && len(entries) < p.Limit {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// variables are the session's own entries in the order of their keys.
func variables(s session.Session) []memory.Entry {
	var entries []memory.Entry
	for key := range s.Variables() {
		if e, ok := variable(s, key); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b memory.Entry) int { return strings.Compare(a.Key, b.Key) })
	return entries
}

// History reads messages.
func (h *handle) History(ctx context.Context, o memory.HistoryOptions) (memory.Page, error) {
	o, err := o.Check()
	if err != nil {
		return memory.Page{}, err
	}
	messages, err := h.transcript(ctx, o.IncludeCleared)
	if err != nil {
		return memory.Page{}, err
	}
	return o.Cut(messages), nil
}

// transcript is everything that was said, or with cleared everything that was
// ever written, in order.
func (h *handle) transcript(ctx context.Context, cleared bool) ([]session.Message, error) {
	s, err := h.session(ctx)
	if err != nil {
		return nil, err
	}
	if !cleared && !s.Partial() {
		return s.Messages(), nil
	}
	if h.rt.logs == nil {
		return nil, h.rt.unsupported("messages that are not in the window")
	}
	spans := session.Spans(s)
	var messages []session.Message
	for after := int64(0); ; {
		entries, err := h.rt.logs.Log(ctx, h.ref, after, 0)
		if err != nil || len(entries) == 0 {
			return messages, err
		}
		for _, e := range entries {
			after = e.Seq
			added, ok := e.Change.(session.MessageAdded)
			if ok && !e.Discarded && (cleared || session.Holds(spans, e.Seq)) {
				messages = append(messages, added.Message)
			}
		}
	}
}
