package holdfast

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Store writes a value.
func (h *memoryHandle) Store(ctx context.Context, scope memory.Scope, key string, value any, opts ...memory.Option) (memory.Entry, error) {
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
	if err := h.checkBlock(ctx, scope, key, raw); err != nil {
		return memory.Entry{}, err
	}
	if scope == memory.ScopeSession {
		return h.storeVariable(ctx, key, StoreVariable{Key: key, Value: raw, IfVersion: o.IfVersion})
	}
	if raw, err = h.rt.redactJSON(raw); err != nil {
		return memory.Entry{}, err
	}
	memo := store.Memo{Key: h.rt.redactText(key), Value: raw, IfVersion: o.IfVersion, At: h.rt.config.Now(), SessionID: h.ref.ID}
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
func (h *memoryHandle) storeVariable(ctx context.Context, key string, action Action) (memory.Entry, error) {
	s, err := h.changeVariable(ctx, action)
	if err != nil {
		return memory.Entry{}, err
	}
	e, _ := variable(s, key)
	return e, nil
}

// changeVariable carries out an action on the session's own memory.
func (h *memoryHandle) changeVariable(ctx context.Context, action Action) (session.Session, error) {
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
	if !ok {
		return memory.Entry{}, false
	}
	return memory.Entry{
		Scope: memory.ScopeSession, Key: key, Value: v.Value, Version: v.Version, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, SessionID: s.ID(),
	}, true
}

// Get reads a value.
func (h *memoryHandle) Get(ctx context.Context, scope memory.Scope, key string, opts ...memory.Option) (memory.Entry, bool, error) {
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
	s, err := h.current(ctx)
	if err != nil {
		return memory.Entry{}, false, err
	}
	e, found := variable(s, key)
	if found && o.At != 0 && o.At != e.Version {
		return h.earlierVersion(ctx, key, o.At)
	}
	return e, found, nil
}

// earlierVersion finds a version of a variable in the log: the newest change that
// made it.
func (h *memoryHandle) earlierVersion(ctx context.Context, key string, version int64) (memory.Entry, bool, error) {
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
func (h *memoryHandle) Delete(ctx context.Context, scope memory.Scope, key string, opts ...memory.Option) (bool, error) {
	o, err := memory.Collect("Delete", opts, "IfVersion")
	if err != nil {
		return false, err
	}
	owner, err := h.owner(scope)
	if err != nil {
		return false, err
	}
	if err := h.checkBlock(ctx, scope, key, nil); err != nil {
		return false, err
	}
	if scope != memory.ScopeSession {
		return h.rt.memories.Forget(ctx, owner, key, o.IfVersion)
	}
	if err := store.CheckEntryKey(key); err != nil {
		return false, err
	}
	s, err := h.current(ctx)
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
	_, err = h.changeVariable(ctx, DeleteVariable{Key: key, IfVersion: o.IfVersion})
	return err == nil, err
}

// Keys lists entries.
func (h *memoryHandle) Keys(ctx context.Context, scope memory.Scope, prefix string, p memory.KeyPage) ([]memory.Entry, error) {
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
	s, err := h.current(ctx)
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
