package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func basicsBehaviours() []behaviour {
	return []behaviour{
		{name: "basics/closedStoreRefusesEverything", check: closedStoreRefusesEverything},
		{name: "basics/endedContextRefusesEverything", check: endedContextRefusesEverything},
		{name: "basics/aPartThatIsSavedIsLoadedWhole", needs: []string{Logs}, check: partIsLoadedWhole},
	}
}

func closedStoreRefusesEverything(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "closed"))
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
	for call, err := range everyCall(t.Context(), st, s) {
		if !errors.Is(err, session.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", call, err)
		}
	}
}

func endedContextRefusesEverything(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "ended"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for call, err := range everyCall(ctx, st, s) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v, want context.Canceled", call, err)
		}
	}
	after, err := st.Load(t.Context(), store.RefOf(s), false)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	wantSame(t, after, s)
}

// everyCall makes each call of the base once and gathers what it returned.
func everyCall(ctx context.Context, st store.Store, s session.Session) map[string]error {
	r := store.RefOf(s)
	errs := map[string]error{}
	_, errs["Create"] = st.Create(ctx, s, store.Commit{})
	_, errs["Save"] = st.Save(ctx, s, store.Commit{})
	_, errs["Load"] = st.Load(ctx, r, false)
	_, errs["Info"] = st.Info(ctx, r)
	_, errs["List"] = st.List(ctx, r.Tenant, store.Query{})
	errs["Delete"] = st.Delete(ctx, r, 0)
	return errs
}

// partIsLoadedWhole saves a session with less than its window shows.
func partIsLoadedWhole(t testing.TB, d Data) {
	st := d.Open(t)
	raw, err := session.EncodeHead(create(t, st, withMessage(t, newSession(t, "part"), "hello")))
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	part, err := session.DecodeHead(raw, nil)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	for range 2 {
		part = save(t, st, withNote(t, part, "x"))
		if shown := load(t, st, ref("part")).WindowMessages(); len(shown) != 1 {
			t.Errorf("%d messages were loaded, want the one of the session", len(shown))
		}
	}
}
