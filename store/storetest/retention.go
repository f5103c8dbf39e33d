package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func retentionBehaviours() []behaviour {
	return []behaviour{
		{name: "retention/findsWhatFits", needs: []string{Sweeps}, check: findsWhatFits},
		{name: "retention/sparesWhatIsInUse", needs: []string{Sweeps, Tails, Leases, Inboxes, settableClock}, check: sparesWhatIsInUse},
		{name: "retention/findingChangesNothing", needs: []string{Sweeps}, check: findingChangesNothing},
		{name: "retention/badRequestsAreRefused", needs: []string{Sweeps}, check: badRetention},
	}
}

func sweepable(t testing.TB, st store.Store, r store.Retention, now time.Time) []string {
	t.Helper()
	infos, err := ability[store.Sweeps](t, st).Sweepable(t.Context(), session.DefaultTenant, r, now)
	if err != nil {
		t.Fatalf("sweepable: %v", err)
	}
	var ids []string
	for _, i := range infos {
		ids = append(ids, i.ID)
	}
	return ids
}

func findsWhatFits(t testing.TB, d Data) {
	st := d.Open(t)
	day := func(n int) time.Time { return start().Add(time.Duration(n) * 24 * time.Hour) }
	def := session.Definition{Name: "tester"}
	past, future := day(5), day(50)
	storedAt(t, st, session.Identity{ID: "old-b"}, def, day(0))
	storedAt(t, st, session.Identity{ID: "old-a"}, def, day(0))
	storedAt(t, st, session.Identity{ID: "done"}, def, day(1), session.StatusChanged{Status: session.Completed})
	storedAt(t, st, session.Identity{ID: "gone"}, def, day(2), session.StatusChanged{Status: session.Deleted})
	storedAt(t, st, session.Identity{ID: "expired", ExpiresAt: &past}, def, day(3))
	storedAt(t, st, session.Identity{ID: "lasting", ExpiresAt: &future}, def, day(4))
	storedAt(t, st, session.Identity{ID: "rules", Kind: session.KindPolicy}, def, day(0))
	storedAt(t, st, session.Identity{ID: "elsewhere", Tenant: "other"}, def, day(0))
	now := day(10)
	for _, c := range []struct {
		name string
		r    store.Retention
		want []string
	}{
		{"everything", store.Retention{}, []string{"old-a", "old-b", "done", "expired", "lasting"}},
		{"idle for nine days", store.Retention{IdleFor: 9 * 24 * time.Hour}, []string{"old-a", "old-b", "done"}},
		{"idle for eleven days", store.Retention{IdleFor: 11 * 24 * time.Hour}, nil},
		{"expired", store.Retention{Expired: true}, []string{"expired"}},
		{"completed or deleted", store.Retention{Statuses: []session.Status{session.Completed, session.Deleted}}, []string{"done", "gone"}},
		{"at most two", store.Retention{Limit: 2}, []string{"old-a", "old-b"}},
	} {
		if have := sweepable(t, st, c.r, now); !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", c.name, have, c.want)
		}
	}
}

func sparesWhatIsInUse(t testing.TB, d Data) {
	st := d.Open(t)
	for _, id := range []string{"free", "held", "running", "unread", "refused"} {
		create(t, st, newSession(t, id))
	}
	l := acquire(t, st, ref("held"), "worker")
	mustAppend(t, st, withNote(t, load(t, st, ref("running")), "x"))
	post(t, st, ref("unread"), item("a"))
	before := load(t, st, ref("refused"))
	worked := mustAppend(t, st, withNote(t, before, "x"))
	discard(t, st, before, before.Seq()+1, worked.Seq())
	later := start().Add(365 * 24 * time.Hour)
	wantSwept := func(ids ...string) {
		t.Helper()
		have := sweepable(t, st, store.Retention{}, later)
		slices.Sort(have)
		if !slices.Equal(have, ids) {
			t.Errorf("sweepable: %v, want %v", have, ids)
		}
	}
	wantSwept("free", "refused")
	save(t, st, loadTail(t, st, ref("running")))
	save(t, st, withItemTaken(t, load(t, st, ref("unread")), "a"))
	d.Clock.Set(l.Until)
	wantSwept("free", "held", "refused", "running", "unread")
}

func findingChangesNothing(t testing.TB, d Data) {
	st := d.Open(t)
	for i := range 3 {
		create(t, st, newSession(t, fmt.Sprintf("s%d", i)))
	}
	before, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	infos, err := ability[store.Sweeps](t, st).Sweepable(t.Context(), session.DefaultTenant, store.Retention{}, start().Add(time.Hour))
	if err != nil || len(infos) != 3 {
		t.Fatalf("sweepable: %d, %v", len(infos), err)
	}
	after, err := st.List(t.Context(), session.DefaultTenant, store.Query{})
	if g, w := string(encode(t, after)), string(encode(t, before)); err != nil || g != w {
		t.Errorf("after looking: %v\n got %s\nwant %s", err, g, w)
	}
	for _, i := range infos {
		sameInfo(t, i, info(t, st, ref(i.ID)))
	}
}

func badRetention(t testing.TB, d Data) {
	st := d.Open(t)
	for what, r := range map[string]store.Retention{
		"a negative age":    {IdleFor: -time.Second},
		"a negative limit":  {Limit: -1},
		"an unknown status": {Statuses: []session.Status{"x"}},
	} {
		_, err := ability[store.Sweeps](t, st).Sweepable(t.Context(), session.DefaultTenant, r, start())
		wantErr(t, "retention with "+what, err, session.ErrInvalid)
	}
}
