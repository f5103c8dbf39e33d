package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func tenantsBehaviours() []behaviour {
	return []behaviour{
		{name: "tenants/neverMeet", check: tenantsNeverMeet},
		{name: "tenants/shareNoAbility", check: tenantsShareNoAbility},
		{name: "tenants/idsAreCaseSensitive", check: idsAreCaseSensitive},
	}
}

// lookAlikes are tenants and ids that a careless store would mix up: joined
// they read alike, they differ in case, or one is a pattern for the other.
func lookAlikes() []store.Ref {
	return []store.Ref{
		{Tenant: "a", ID: "b-c"}, {Tenant: "a-b", ID: "c"}, {Tenant: "a_b", ID: "c"}, {Tenant: "axb", ID: "c"},
		{Tenant: "a", ID: "c"}, {Tenant: "default", ID: "c"}, {Tenant: "default-a", ID: "c"}, {Tenant: "c", ID: "a"},
		{Tenant: "A1", ID: "c"},
	}
}

func tenantsNeverMeet(t testing.TB, d Data) {
	st := d.Open(t)
	saved := map[store.Ref]session.Session{}
	for i, r := range lookAlikes() {
		s := create(t, st, newSessionFrom(t, session.Identity{ID: r.ID, Tenant: r.Tenant, AgentID: fmt.Sprintf("agent-%d", i)}))
		saved[r] = save(t, st, withMessage(t, s, fmt.Sprint(r)))
	}
	for r, want := range saved {
		wantSame(t, load(t, st, r), want)
		sameInfo(t, info(t, st, r), want.Info())
		page, err := st.List(t.Context(), r.Tenant, store.Query{})
		if err != nil {
			t.Fatalf("list %s: %v", r.Tenant, err)
		}
		for _, i := range page.Items {
			if i.Tenant != r.Tenant {
				t.Errorf("the listing of %s shows %s of %s", r.Tenant, i.ID, i.Tenant)
			}
		}
		if !slices.ContainsFunc(page.Items, func(i session.Info) bool { return i.ID == r.ID }) {
			t.Errorf("the listing of %s lacks %s", r.Tenant, r.ID)
		}
	}
	gone := store.Ref{Tenant: "a", ID: "c"}
	if err := st.Delete(t.Context(), gone, 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	for r, want := range saved {
		if r != gone {
			wantSame(t, load(t, st, r), want)
		}
	}
	_, err := st.Load(t.Context(), store.Ref{Tenant: "nobody", ID: "c"}, false)
	wantErr(t, "load of another tenant's session", err, session.ErrNotFound)
}

func tenantsShareNoAbility(t testing.TB, d Data) {
	st := d.Open(t)
	mine, theirs := store.Ref{Tenant: "mine", ID: "x"}, store.Ref{Tenant: "theirs", ID: "x"}
	s := create(t, st, newSessionFrom(t, session.Identity{ID: "x", Tenant: "mine"}))
	other := create(t, st, newSessionFrom(t, session.Identity{ID: "x", Tenant: "theirs"}))
	if _, ok := st.(store.Inboxes); ok {
		post(t, st, mine, item("a"))
		wantUnread(t, st, theirs)
	}
	if leases, ok := st.(store.Leases); ok {
		acquire(t, st, theirs, "them")
		if _, live, err := leases.Holding(t.Context(), mine); live || err != nil {
			t.Errorf("held through another tenant: %t, %v", live, err)
		}
	}
	if tails, ok := st.(store.Tails); ok {
		flushed := mustAppend(t, st, withNote(t, s, "x"))
		if refs, err := tails.Interrupted(t.Context(), "theirs"); err != nil || len(refs) != 0 {
			t.Errorf("interrupted sessions of the other tenant: %v, %v", refs, err)
		}
		wantSame(t, loadTail(t, st, theirs), other)
		wantSame(t, loadTail(t, st, mine), flushed)
	}
	if sweeps, ok := st.(store.Sweeps); ok {
		infos, err := sweeps.Sweepable(t.Context(), "nobody", store.Retention{}, start().Add(time.Hour))
		if err != nil || len(infos) != 0 {
			t.Errorf("sweepable of an unknown tenant: %v, %v", infos, err)
		}
	}
}

func idsAreCaseSensitive(t testing.TB, d Data) {
	st := d.Open(t)
	lower := create(t, st, newSession(t, "case"))
	_, err := st.Load(t.Context(), ref("CASE"), false)
	wantErr(t, "load in another case", err, session.ErrNotFound)
	upper := newSession(t, "CASE")
	if upper, err = st.Create(t.Context(), upper, commit(upper, "create")); err != nil {
		// Where file names ignore case a store may refuse, but never mix up.
		wantErr(t, "create in another case", err, session.ErrInvalid)
	} else {
		wantSame(t, load(t, st, ref("CASE")), upper)
	}
	wantSame(t, load(t, st, ref("case")), lower)
}
