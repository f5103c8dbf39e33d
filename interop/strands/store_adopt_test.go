package strands_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// takeOver makes a run one of the store.
func takeOver(t *testing.T, st *strands.Store, r store.Ref) {
	t.Helper()
	l, err := st.Acquire(t.Context(), r, "test", time.Minute)
	if err == nil {
		err = st.Release(t.Context(), r, l)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestStore_toLoadARunOfTheOtherProgramWritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := foreignDir(t, dir, `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: b, input: y}]}}`,
		`{"step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}]}`, "user:x", "assistant:first")
	st, r := openStore(t, dir, strands.StoreConfig{}), store.Ref{Tenant: session.DefaultTenant, ID: id}
	before := listing(t, d)
	loaded, err := st.Load(t.Context(), r, true)
	if err != nil || loaded.Version() != 1 || loaded.Workflow().Units != 1 {
		t.Fatalf("loaded is version %d (%v)", loaded.Version(), err)
	}
	if info, err := st.Info(t.Context(), r); err != nil || info.Version != 1 {
		t.Errorf("the header is %+v (%v)", info, err)
	}
	if after := listing(t, d); after != before {
		t.Errorf("to load changed the directory from\n%s\nto\n%s", before, after)
	}
	takeOver(t, st, r)
	stored, err := st.Load(t.Context(), r, true)
	if err != nil || asJSON(t, stored.Messages()) != asJSON(t, loaded.Messages()) || stored.AgentID() != loaded.AgentID() || stored.Version() != 1 {
		t.Errorf("stored is\n%s, loaded was\n%s (%v)", asJSON(t, stored.Messages()), asJSON(t, loaded.Messages()), err)
	}
}

func TestStore_saveOfARunThatWasOnlyLoaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreignDir(t, dir, `pattern: {type: chain, config: {steps: [{agent: a, input: x}]}}`, `{}`, "user:x")
	st, r := openStore(t, dir, strands.StoreConfig{}), store.Ref{Tenant: session.DefaultTenant, ID: id}
	loaded, err := st.Load(t.Context(), r, false)
	if err == nil {
		loaded, err = loaded.With(at(90), session.MetadataWritten{Key: "k", Value: json.RawMessage("1")})
	}
	if err != nil {
		t.Fatal(err)
	}
	if saved, err := st.Save(t.Context(), loaded, store.Commit{ID: "c", At: at(90)}); err != nil || saved.Version() != 2 {
		t.Fatalf("saved is version %d (%v)", saved.Version(), err)
	}
	again, err := st.Load(t.Context(), r, false)
	if err != nil || again.Version() != 2 || string(again.Metadata()["k"]) != "1" || asJSON(t, again.Messages()) != asJSON(t, loaded.Messages()) {
		t.Errorf("stored is version %d with %v (%v)", again.Version(), again.Metadata(), err)
	}
}

func TestStore_takesInMoreAndRefusesWhatContradictsTheLog(t *testing.T) {
	t.Parallel()
	const text = `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: b, input: y}]}}`
	const one = `{"step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}]}`
	for name, c := range map[string]struct {
		state string
		fine  bool
		more  int // units
	}{
		"the same": {one, true, 1},
		"more": {`{"step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2},
  {"index": 1, "agent": "b", "response": "second", "tokens_estimated": 2}]}`, true, 2},
		"another answer": {`{"step_history": [{"index": 0, "agent": "a", "response": "other", "tokens_estimated": 2}]}`, false, 1},
		"less":           {`{"step_history": []}`, false, 1},
	} {
		dir := t.TempDir()
		d := foreignDir(t, dir, text, one)
		st, r := openStore(t, dir, strands.StoreConfig{}), store.Ref{Tenant: session.DefaultTenant, ID: id}
		takeOver(t, st, r)
		asStrands(t, d, func(s *strands.State) { s.Pattern = object(t, c.state) })
		next, err := st.Load(t.Context(), r, false)
		if c.fine != (err == nil) || err != nil && !errors.Is(err, session.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && next.Workflow().Units != c.more {
			t.Errorf("%s: %d units", name, next.Workflow().Units)
		}
	}
}

func TestStore_toLoadWhatTheOtherProgramWentOnWithWritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := foreignDir(t, dir, `pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: b, input: y}]}}`, `{}`)
	st, r := openStore(t, dir, strands.StoreConfig{}), store.Ref{Tenant: session.DefaultTenant, ID: id}
	takeOver(t, st, r)
	asStrands(t, d, func(s *strands.State) {
		s.Pattern = object(t, `{"step_history": [{"index": 0, "agent": "a", "response": "first", "tokens_estimated": 2}]}`)
	})
	before := listing(t, d)
	loaded, err := st.Load(t.Context(), r, true)
	if err != nil || loaded.Version() != 2 || loaded.Workflow().Units != 1 {
		t.Fatalf("loaded is version %d (%v)", loaded.Version(), err)
	}
	if after := listing(t, d); after != before {
		t.Errorf("to load changed the directory from\n%s\nto\n%s", before, after)
	}
	if loaded, err = loaded.With(at(90), session.MetadataWritten{Key: "k", Value: json.RawMessage("1")}); err != nil {
		t.Fatal(err)
	}
	if saved, err := st.Save(t.Context(), loaded, store.Commit{ID: "c", At: at(90)}); err != nil || saved.Version() != 3 {
		t.Fatalf("saved is version %d (%v)", saved.Version(), err)
	}
	if again, err := st.Load(t.Context(), r, true); err != nil || again.Version() != 3 || again.Workflow().Units != 1 {
		t.Errorf("stored is version %d with %+v (%v)", again.Version(), again.Workflow(), err)
	}
}
