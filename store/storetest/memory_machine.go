package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// memoryAgreesWithModel makes random calls about random keys of a few owners
// and compares every answer with what a map would give.
func memoryAgreesWithModel(t testing.TB, d Data) {
	st := d.Open(t)
	runs := 0
	property.CheckCases(t, d.cases(), func(run *property.T) {
		runs++
		m := &memoryMachine{T: run, memories: ability[store.Memories](t, st), tenant: fmt.Sprint("run-", runs), known: map[slot]*slotState{}}
		for range run.Repeat(1, 30) {
			m.step()
		}
		for _, scope := range []store.Scope{store.ScopeUser, store.ScopeAgent} {
			m.list(store.Owner{Tenant: m.tenant, Scope: scope, Name: "ann"}, "", "", 0)
		}
	})
}

// slot is a key of an owner.
type slot struct {
	owner store.Owner
	key   string
}

// slotState is the model of a slot. The step that wrote a value identifies it.
type slotState struct {
	last  int64
	kept  map[int64]string
	calls map[string]int64
}

// there is the version that is there, 0 for none.
func (s *slotState) there() int64 {
	if len(s.kept) == 0 {
		return 0
	}
	return s.last
}

// memoryMachine makes random calls and compares the store with a model.
type memoryMachine struct {
	*property.T
	memories store.Memories
	tenant   string
	steps    int
	used     []string // keys
	known    map[slot]*slotState
}

func (m *memoryMachine) step() {
	m.steps++
	at := slot{owner: m.owner(), key: m.key("key")}
	switch property.SampledFrom([]string{"remember", "remember", "remember", "entry", "list", "list", "forget", "forget all"}).Draw(m.T, "call") {
	case "remember":
		m.remember(at)
	case "entry":
		m.entry(at, property.Int64Range(0, 4).Draw(m.T, "version"))
	case "list":
		prefix := property.SampledFrom([]string{"", at.key}).Draw(m.T, "prefix")
		after := property.SampledFrom([]string{"", m.key("after")}).Draw(m.T, "after or not")
		m.list(at.owner, prefix, after, property.IntRange(0, 3).Draw(m.T, "limit"))
	case "forget":
		m.forget(at)
	case "forget all":
		m.forgetAll(at.owner, property.Bool().Draw(m.T, "dry"))
	}
}

func (m *memoryMachine) owner() store.Owner {
	scope := property.SampledFrom([]store.Scope{store.ScopeUser, store.ScopeUser, store.ScopeUser, store.ScopeAgent}).Draw(m.T, "scope")
	return store.Owner{Tenant: m.tenant, Scope: scope, Name: property.SampledFrom([]string{"ann", "ann", "ann", "ann%"}).Draw(m.T, "name")}
}

// key is one that was used before or a short new one, of characters that mean
// something somewhere; some of them are no keys.
func (m *memoryMachine) key(what string) string {
	if len(m.used) > 0 && property.IntRange(0, 3).Draw(m.T, what+" again") > 0 {
		return property.SampledFrom(m.used).Draw(m.T, what)
	}
	parts := property.SliceOfN(property.SampledFrom([]string{"a", "b", "/", "a", "/", "A", "%", "_", "*", "'", `"`, `\`, ".", " ", "\u00e9", "e\u0301"}), 1, 5)
	key := strings.Join(parts.Draw(m.T, what), "")
	m.used = append(m.used, key)
	return key
}

// version is nothing, or a version that may be there.
func (m *memoryMachine) version() *int64 {
	if v := property.Int64Range(-1, 3).Draw(m.T, "if version"); v >= 0 {
		return &v
	}
	return nil
}

// at is what the model knows of a slot, nil where its key is none.
func (m *memoryMachine) at(s slot) *slotState {
	if store.CheckEntryKey(s.key) != nil {
		return nil
	}
	if m.known[s] == nil {
		m.known[s] = &slotState{kept: map[int64]string{}, calls: map[string]int64{}}
	}
	return m.known[s]
}

// refused reports whether a call had to be refused, and fails the run where it
// was not, or was and should not.
func (m *memoryMachine) refused(what string, state *slotState, ifVersion *int64, err error) bool {
	var c *session.ConflictError
	switch {
	case state == nil:
		wantErr(m, what, err, session.ErrInvalid)
		return true
	case ifVersion != nil && *ifVersion != state.there():
		if !errors.As(err, &c) || c.Reason != session.ReasonStaleEntry || c.Want != *ifVersion || c.Have != state.there() {
			m.Errorf("%s if version %d where %d is: %v", what, *ifVersion, state.there(), err)
		}
		return true
	case err != nil:
		m.Fatalf("%s: %v", what, err)
	}
	return false
}

func (m *memoryMachine) remember(s slot) {
	state, value := m.at(s), fmt.Sprint(m.steps)
	w := newMemo(s.key, value)
	w.IfVersion, w.At, w.CallID = m.version(), start(), property.SampledFrom([]string{"", "", "c1", "c2"}).Draw(m.T, "call id")
	e, err := m.memories.Remember(m.Context(), s.owner, w)
	if state != nil && w.CallID != "" && state.calls[w.CallID] != 0 {
		want := state.calls[w.CallID]
		if _, ok := state.kept[want]; !ok {
			want = state.there()
		}
		if err != nil || e.Version != want || string(e.Value) != state.kept[want] {
			m.Errorf("%q written by a call once more: version %d with %s, %v; want %d with %s", s.key, e.Version, e.Value, err, want, state.kept[want])
		}
		return
	}
	if m.refused("remember "+s.key, state, w.IfVersion, err) {
		return
	}
	state.last++
	state.kept[state.last] = value
	if w.CallID != "" {
		state.calls[w.CallID] = state.last
	}
	if e.Version != state.last || string(e.Value) != value {
		m.Errorf("%q written as version %d with %s, want %d with %s", s.key, e.Version, e.Value, state.last, value)
	}
}

func (m *memoryMachine) entry(s slot, version int64) {
	state := m.at(s)
	e, found, err := m.memories.Entry(m.Context(), s.owner, s.key, version)
	if m.refused("entry "+s.key, state, nil, err) {
		return
	}
	if version == 0 {
		version = state.there()
	}
	want, ok := state.kept[version]
	if found != ok || found && (string(e.Value) != want || e.Version != version || e.Key != s.key) {
		m.Errorf("entry %q at %d: %t with %s, want %t with %s", s.key, version, found, e.Value, ok, want)
	}
}

func (m *memoryMachine) list(o store.Owner, prefix, after string, limit int) {
	entries, err := m.memories.Entries(m.Context(), o, prefix, after, limit)
	if prefix != "" && store.CheckEntryKey(prefix) != nil {
		wantErr(m, "entries under "+prefix, err, session.ErrInvalid)
		return
	}
	if err != nil {
		m.Fatalf("entries: %v", err)
	}
	var want, have []string
	for s, state := range m.known {
		if s.owner == o && state.there() != 0 && s.key > after && (prefix == "" || s.key == prefix || strings.HasPrefix(s.key, prefix+"/")) {
			want = append(want, s.key+" = "+state.kept[state.last])
		}
	}
	for _, e := range entries {
		have = append(have, e.Key+" = "+string(e.Value))
	}
	slices.SortFunc(want, func(a, b string) int { // by key alone
		keyA, _, _ := strings.Cut(a, " = ")
		keyB, _, _ := strings.Cut(b, " = ")
		return strings.Compare(keyA, keyB)
	})
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	if !slices.Equal(have, want) {
		m.Errorf("entries of %s under %q after %q, at most %d: %q, want %q", o.Name, prefix, after, limit, have, want)
	}
}

func (m *memoryMachine) forget(s slot) {
	state, ifVersion := m.at(s), m.version()
	there, err := m.memories.Forget(m.Context(), s.owner, s.key, ifVersion)
	if m.refused("forget "+s.key, state, ifVersion, err) {
		return
	}
	if there != (state.there() != 0) {
		m.Errorf("forget %q says %t", s.key, there)
	}
	clear(state.kept)
}

func (m *memoryMachine) forgetAll(o store.Owner, dry bool) {
	want := 0
	for s, state := range m.known {
		if s.owner != o {
			continue
		}
		if state.there() != 0 {
			want++
		}
		if !dry {
			delete(m.known, s)
		}
	}
	if n, err := m.memories.ForgetAll(m.Context(), o, dry); n != want || err != nil {
		m.Errorf("forget all of %s, dry %t: %d, %v; want %d", o.Name, dry, n, err, want)
	}
}
