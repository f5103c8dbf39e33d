package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Store writes a value.
func (h *memoryHandle) Store(ctx context.Context, scope memory.Scope, key string, value any, opts ...memory.Option) (memory.Entry, error) {
	o, err := memory.Collect("Store", opts, "IfVersion", "Tags", "Metadata", "TTL")
	if err != nil {
		return memory.Entry{}, err
	}
	owner, err := h.owner(scope)
	if err != nil {
		return memory.Entry{}, err
	}
	labels, err := h.rt.labels(o, key)
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
		return h.storeVariable(ctx, key, StoreVariable{Key: key, Value: raw, Labels: labels, IfVersion: o.IfVersion})
	}
	if raw, err = h.rt.redactJSON(raw); err != nil {
		return memory.Entry{}, err
	}
	memo := store.Memo{Key: h.rt.redactText(key), Value: raw, Labels: labels, IfVersion: o.IfVersion, At: h.rt.config.Now(), SessionID: h.ref.ID}
	if tail := agent.WriterOf(ctx); tail != nil && h.env != nil {
		memo.CallID = tail.CallID()
	}
	if err := h.rt.forgetExpired(ctx, owner, memo.Key); err != nil {
		return memory.Entry{}, err
	}
	e, err := h.rt.memories.Remember(ctx, owner, memo)
	return entryOf(scope, e), err
}

func entryOf(scope memory.Scope, e store.Entry) memory.Entry {
	return memory.Entry{
		Scope: scope, Key: e.Key, Value: e.Value, Labels: e.Labels, Version: e.Version, CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, SessionID: e.SessionID,
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
		Scope: memory.ScopeSession, Key: key, Value: v.Value, Labels: v.Labels, Version: v.Version, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt, SessionID: s.ID(),
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
		return h.entry(ctx, scope, owner, key, o.At)
	}
	if err := store.CheckEntryKey(key); err != nil {
		return memory.Entry{}, false, err
	}
	s, err := h.current(ctx)
	if err != nil {
		return memory.Entry{}, false, err
	}
	e, found := variable(s, key)
	if e.Labels.Expired(h.rt.config.Now()) {
		return memory.Entry{}, false, nil
	}
	if found && o.At != 0 && o.At != e.Version {
		return h.earlierVersion(ctx, key, o.At)
	}
	return e, found, nil
}

// entry reads an entry of an owner. Where the newest version has expired, all are
// gone; of earlier ones, those that have expired.
func (h *memoryHandle) entry(ctx context.Context, scope memory.Scope, owner store.Owner, key string, version int64) (memory.Entry, bool, error) {
	now := h.rt.config.Now()
	for _, at := range []int64{0, version} {
		e, found, err := h.rt.memories.Entry(ctx, owner, key, at)
		if err != nil || !found || e.Labels.Expired(now) {
			return memory.Entry{}, false, err
		}
		if at == version {
			return entryOf(scope, e), true, nil
		}
	}
	return memory.Entry{}, false, nil
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
			return found, found.Version > 0 && !found.Labels.Expired(h.rt.config.Now()), err
		}
		for _, e := range entries {
			after = e.Seq
			if e.Discarded {
				continue
			}
			if next := variableAfter(now, e.Record, key); next.Version != now.Version {
				if now = next; now.Version == version && !now.Deleted {
					found = memory.Entry{
						Scope: memory.ScopeSession, Key: key, Value: now.Value, Labels: now.Labels, Version: version, CreatedAt: now.CreatedAt, UpdatedAt: now.UpdatedAt, SessionID: h.ref.ID,
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
		if v.Version == 0 || v.Deleted || v.Labels.Expired(r.At) {
			created = r.At
		}
		return session.Variable{Value: c.Value, Labels: c.Labels, Version: v.Version + 1, CreatedAt: created, UpdatedAt: r.At}
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
		if err := h.rt.forgetExpired(ctx, owner, key); err != nil {
			return false, err
		}
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
	if e.Labels.Expired(h.rt.config.Now()) {
		e, there = memory.Entry{}, false
	}
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
		return h.ownerKeys(ctx, scope, owner, prefix, p)
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
	for _, e := range h.variables(s) {
		if store.Covers(prefix, e.Key) && e.Key > p.After && len(entries) < p.Limit && p.Filter.Selects(e) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// ownerKeys lists entries of an owner. It reads on until the page is full of what
// the filter selects.
func (h *memoryHandle) ownerKeys(ctx context.Context, scope memory.Scope, owner store.Owner, prefix string, p memory.KeyPage) ([]memory.Entry, error) {
	entries, now := []memory.Entry{}, h.rt.config.Now()
	for after := p.After; len(entries) < p.Limit; {
		found, err := h.rt.memories.Entries(ctx, owner, prefix, after, p.Limit)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			after = e.Key
			if one := entryOf(scope, e); len(entries) < p.Limit && !e.Labels.Expired(now) && p.Filter.Selects(one) {
				entries = append(entries, one)
			}
		}
		if len(found) < p.Limit {
			break
		}
	}
	return entries, nil
}

// labels are those of what is stored now under a key.
func (rt *Runtime) labels(o memory.Options, key string) (*session.Labels, error) {
	l, err := o.LabelsAt(rt.config.Now())
	if err == nil && l != nil && strings.HasPrefix(key, session.BlockKey("")) {
		return nil, &session.InvalidError{Field: "labels", Reason: fmt.Sprintf("%q is the key of a block, which has none", key)}
	}
	return l, err
}

// forgetExpired removes an entry that has expired, so that what is written under
// its key begins anew. One that was written meanwhile stays.
func (rt *Runtime) forgetExpired(ctx context.Context, owner store.Owner, key string) error {
	e, found, err := rt.memories.Entry(ctx, owner, key, 0)
	if err != nil || !found || !e.Labels.Expired(rt.config.Now()) {
		return err
	}
	if _, err = rt.memories.Forget(ctx, owner, key, &e.Version); errors.Is(err, session.ErrConflict) {
		return nil
	}
	return err
}

// variables are the session's own entries in the order of their keys.
func (h *memoryHandle) variables(s session.Session) []memory.Entry {
	var entries []memory.Entry
	for key := range s.Variables() {
		if e, ok := variable(s, key); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b memory.Entry) int { return strings.Compare(a.Key, b.Key) })
	return memory.Live(entries, h.rt.config.Now())
}
