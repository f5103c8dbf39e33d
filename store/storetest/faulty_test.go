package storetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

var errPulled = errors.New("plug pulled")

func sample(t *testing.T) session.Session {
	t.Helper()
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, session.Definition{Name: "tester"}, session.Seed{}, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFaulty_failsTheChosenCallAndNoOther(t *testing.T) {
	st := storetest.Faulty(inmem.New(inmem.Config{}), func(call string, n int) error {
		if call == "Save" && n == 2 {
			return errPulled
		}
		return nil
	})
	s, err := st.Create(t.Context(), sample(t), store.Commit{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = st.Save(t.Context(), s, store.Commit{}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Save(t.Context(), s, store.Commit{}); !errors.Is(err, errPulled) {
		t.Fatalf("the second save: %v", err)
	}
	if i, err := st.Info(t.Context(), store.RefOf(s)); err != nil || i.Version != 2 {
		t.Fatalf("version %d, %v: the refused save reached the store", i.Version, err)
	}
	if s, err = st.Save(t.Context(), s, store.Commit{}); err != nil || s.Version() != 3 {
		t.Fatalf("the third save: %v", err)
	}
	if st.Calls("Save") != 3 {
		t.Errorf("%d saves counted", st.Calls("Save"))
	}
}

func TestFaulty_afterIsCarriedOutAndNotLearnt(t *testing.T) {
	st := storetest.Faulty(inmem.New(inmem.Config{}), func(call string, _ int) error {
		if call == "Create" {
			return storetest.After(errPulled)
		}
		return nil
	})
	s, err := st.Create(t.Context(), sample(t), store.Commit{})
	if !s.IsZero() || !errors.Is(err, errPulled) {
		t.Fatalf("create: %v", err)
	}
	if _, err := st.Load(t.Context(), store.Ref{Tenant: session.DefaultTenant, ID: "s"}, false); err != nil {
		t.Errorf("the session is not there: %v", err)
	}
}

func TestFaulty_passesThePanicOn(t *testing.T) {
	st := storetest.Faulty(inmem.New(inmem.Config{}), func(string, int) error { panic("broken") })
	defer func() {
		if recover() != "broken" {
			t.Error("the panic did not arrive")
		}
	}()
	_, _ = st.List(context.Background(), session.DefaultTenant, store.Query{})
}

func TestFaulty_withoutFaultsPassesTheSuite(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Data {
		clock := storetest.NewClock()
		first := inmem.New(inmem.Config{Now: clock.Now})
		return storetest.Data{Clock: clock, Open: func(testing.TB) store.Store {
			return storetest.Faulty(first.Handle(), func(string, int) error { return nil })
		}}
	})
}

// bare is a store with no optional ability.
type bare struct{ store.Store }

func TestRun_takesABareStoreAndSkipsByName(t *testing.T) {
	if have := storetest.Abilities(bare{inmem.New(inmem.Config{})}); have != nil {
		t.Errorf("abilities of a bare store: %v", have)
	}
	if have := storetest.Abilities(inmem.New(inmem.Config{})); len(have) != 13 {
		t.Errorf("abilities of a full store: %v", have)
	}
	storetest.Run(t, func(testing.TB) storetest.Data {
		first := inmem.New(inmem.Config{})
		return storetest.Data{Open: func(testing.TB) store.Store { return bare{first.Handle()} }}
	})
}
