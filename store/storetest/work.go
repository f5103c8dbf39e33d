package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func workBehaviours() []behaviour {
	return []behaviour{
		{name: "work/interruptedAndUnreadAreListed", needs: []string{Work, Tails, Inboxes}, check: waitingAreListed},
		{name: "work/heldAreNot", needs: []string{Work, Leases, settableClock}, check: heldDoNotWait},
		{name: "work/tasksAndRunsAreListed", needs: []string{Work}, check: tasksAndRunsWait},
		{name: "work/callsAreDueWhenTheyExpire", needs: []string{Work, settableClock}, check: callsExpire},
		{name: "work/longestWaitingComeFirst", needs: []string{Work, Inboxes, settableClock}, check: longestWaitingFirst},
		{name: "work/tenantsTakeTurns", needs: []string{Work, Inboxes}, check: tenantsTakeTurns},
		{name: "work/goesWithItsSession", needs: []string{Work, Inboxes}, check: workGoesWithItsSession},
		{name: "wake/bellOfEverySession", needs: []string{Wakes}, check: bellOfEverySession},
	}
}

// listWork lists what waits as "tenant/id kind".
func listWork(t testing.TB, st store.Store, after string, limit int) []string {
	t.Helper()
	found, err := ability[store.Work](t, st).Waiting(t.Context(), after, limit)
	if err != nil {
		t.Fatalf("waiting: %v", err)
	}
	names := []string{}
	for _, w := range found {
		names = append(names, fmt.Sprintf("%s/%s %s", w.Ref.Tenant, w.Ref.ID, w.Kind))
	}
	return names
}

// wantWork compares what waits in the default tenant, in any order.
func wantWork(t testing.TB, st store.Store, what string, kind session.Kind, ids ...string) {
	t.Helper()
	want := []string{}
	for _, id := range ids {
		want = append(want, fmt.Sprintf("%s/%s %s", session.DefaultTenant, id, kind))
	}
	have := listWork(t, st, "", 100)
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("%s: %v wait, want %v", what, have, want)
	}
}

func waitingAreListed(t testing.TB, d Data) {
	st := d.Open(t)
	begun := session.ExecutionStarted{ExecutionID: "e1"}
	finished := session.ExecutionFinished{Status: session.ExecutionCompleted}
	create(t, st, newSession(t, "idle"))
	open := mustAppend(t, st, withNote(t, create(t, st, newSession(t, "open")), "x"))
	running := save(t, st, withChanges(t, create(t, st, newSession(t, "running")), begun))
	appended := mustAppend(t, st, withChanges(t, create(t, st, newSession(t, "appended")), begun))
	unread := create(t, st, newSession(t, "unread"))
	post(t, st, ref("unread"), item("a"))
	suspended := withChanges(t, create(t, st, newSession(t, "suspended")), begun, session.StatusChanged{Status: session.Suspended})
	save(t, st, suspended)
	post(t, st, ref("suspended"), item("a"))
	wantWork(t, st, "at first", session.KindChat, "open", "running", "appended", "unread")
	save(t, st, open)
	save(t, st, withChanges(t, running, finished))
	save(t, st, withChanges(t, appended, finished))
	taken := mustAppend(t, st, withItemTaken(t, unread, "a"))
	wantWork(t, d.Open(t), "with a tail that took the item", session.KindChat, "unread")
	save(t, st, taken)
	wantWork(t, d.Open(t), "when all is done", session.KindChat)
}

func heldDoNotWait(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "held"))
	l, err := ability[store.Leases](t, st).Acquire(t.Context(), ref("held"), "me", time.Minute)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	if _, err := ability[store.Tails](t, st).Append(t.Context(), withChanges(t, s, session.ExecutionStarted{ExecutionID: "e"}), store.Append{Fence: l.Token}); err != nil {
		t.Fatalf("append: %v", err)
	}
	wantWork(t, st, "while it is held", session.KindChat)
	d.Clock.Advance(time.Hour)
	wantWork(t, st, "when the lease has run out", session.KindChat, "held")
	if err := ability[store.Leases](t, st).Release(t.Context(), ref("held"), l); err != nil {
		t.Fatalf("release: %v", err)
	}
	wantWork(t, st, "when it was released", session.KindChat, "held")
}

func tasksAndRunsWait(t testing.TB, d Data) {
	st := d.Open(t)
	for _, status := range []string{"pending", "queued", "planning", "executing", "paused", "blocked", "completed", "failed", "cancelled"} {
		s := newSessionFrom(t, session.Identity{ID: "task-" + status, Kind: session.KindTask})
		auto := session.NewTaskState()
		auto.Settings.AutoResume = true
		moved, _, err := session.TaskMoves(session.NewTaskState(), auto)
		if err != nil {
			t.Fatal(err)
		}
		create(t, st, withChanges(t, s, moved, session.TaskRowChanged{Task: session.TaskRow{Title: "t", Status: status}}))
	}
	wantWork(t, st, "tasks", session.KindTask, "task-pending", "task-queued", "task-planning", "task-executing")
	for _, id := range []string{"pending", "queued", "planning", "executing"} {
		if err := st.Delete(t.Context(), ref("task-"+id), 0); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	for _, status := range []string{"running", "paused", "completed", "failed", "cancelled"} {
		s := newSessionFrom(t, session.Identity{ID: "run-" + status, Kind: session.KindWorkflow})
		create(t, st, withChanges(t, s, session.WorkflowRowChanged{Workflow: session.WorkflowRow{Name: "w", Status: status}}))
	}
	wantWork(t, st, "runs", session.KindWorkflow, "run-running")
	run := load(t, st, ref("run-running"))
	save(t, st, withChanges(t, run, session.WorkflowRowChanged{Workflow: session.WorkflowRow{Name: "w", Status: "paused"}}))
	wantWork(t, st, "a run that was paused", session.KindWorkflow)
}

func callsExpire(t testing.TB, d Data) {
	st := d.Open(t)
	at := d.Clock.Now().Add(time.Hour)
	ask := func(id string, expires *time.Time) session.Session {
		return withChanges(t, newSession(t, id), session.ExecutionStarted{ExecutionID: "e"},
			session.CallPending{Call: session.PendingCall{ID: "p-" + id, CallID: "c", Kind: session.PendingQuestion, Prompt: "?", AskedAt: d.Clock.Now(), ExpiresAt: expires}},
			session.ExecutionWaiting{})
	}
	create(t, st, ask("expires", &at))
	create(t, st, ask("never", nil))
	wantWork(t, st, "before", session.KindChat)
	d.Clock.Advance(2 * time.Hour)
	wantWork(t, st, "after", session.KindChat, "expires")
}

func longestWaitingFirst(t testing.TB, d Data) {
	st := d.Open(t)
	ids := []string{"c", "a", "d", "b"}
	for _, id := range ids {
		create(t, st, newSession(t, id))
		post(t, st, ref(id), item("i"))
		d.Clock.Advance(time.Second)
	}
	var want []string
	for _, id := range ids {
		want = append(want, session.DefaultTenant+"/"+id+" chat")
	}
	if have := listWork(t, st, "", 10); !slices.Equal(have, want) {
		t.Errorf("waiting: %v, want %v", have, want)
	}
	if have := listWork(t, st, "", 2); !slices.Equal(have, want[:2]) {
		t.Errorf("two of them: %v, want %v", have, want[:2])
	}
	if have := listWork(t, st, "", 0); len(have) != 0 {
		t.Errorf("none of them: %v", have)
	}
}

func tenantsTakeTurns(t testing.TB, d Data) {
	st := d.Open(t)
	for _, tenant := range []string{"t1", "t2", "t3"} {
		for i := range 4 {
			r := store.Ref{Tenant: tenant, ID: fmt.Sprintf("s%d", i)}
			create(t, st, newSessionFrom(t, session.Identity{ID: r.ID, Tenant: tenant}))
			post(t, st, r, item("i"))
		}
	}
	tenants := func(after string, limit int) string {
		var names []string
		for _, w := range listWork(t, st, after, limit) {
			tenant, _, _ := strings.Cut(w, "/")
			names = append(names, tenant)
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		after string
		limit int
		want  string
	}{
		{"", 6, "t1 t2 t3 t1 t2 t3"},
		{"t1", 6, "t2 t3 t1 t2 t3 t1"},
		{"t2", 1, "t3"},
		{"t3", 2, "t1 t2"},
		{"zzz", 4, "t1 t2 t3 t1"},
	} {
		if have := tenants(c.after, c.limit); have != c.want {
			t.Errorf("%d after %q: %q, want %q", c.limit, c.after, have, c.want)
		}
	}
}

func workGoesWithItsSession(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withChanges(t, newSession(t, "gone"), session.ExecutionStarted{ExecutionID: "e"}))
	post(t, st, ref("gone"), item("i"))
	wantWork(t, st, "both reasons", session.KindChat, "gone")
	if err := st.Delete(t.Context(), ref("gone"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantWork(t, st, "when it is deleted", session.KindChat)
}

func bellOfEverySession(t testing.TB, d Data) {
	st := d.Open(t)
	news, stop := ability[store.Wakes](t, st).Subscribe(store.Ref{})
	defer stop()
	s := create(t, st, newSession(t, "one"))
	wantNews(t, "create", news)
	create(t, st, newSessionFrom(t, session.Identity{ID: "two", Tenant: "other"}))
	wantNews(t, "create in another tenant", news)
	save(t, st, withNote(t, s, "x"))
	wantNews(t, "save", news)
}
