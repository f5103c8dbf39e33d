package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func tailBehaviours() []behaviour {
	needs := []string{Tails}
	return []behaviour{
		{name: "tail/isDurableAndNotAVersion", needs: needs, check: tailIsDurable},
		{name: "tail/survivesReopening", needs: needs, check: tailSurvivesReopening},
		{name: "tail/mustBeSeenToBeSealed", needs: needs, check: tailMustBeSeen},
		{name: "tail/isSealedBySave", needs: needs, check: tailIsSealed},
		{name: "tail/discardedLeavesTheStateAlone", needs: needs, check: discardedTail},
		{name: "tail/partOfItCanBeDiscarded", needs: needs, check: partlyDiscardedTail},
		{name: "tail/showsItsRowsInTheHeader", needs: needs, check: tailShowsRows},
		{name: "tail/refusesRewinds", needs: needs, check: tailRefusesRewinds},
		{name: "tail/interruptedSessionsAreFound", needs: needs, check: interruptedAreFound},
		{name: "tail/heldSessionsAreNotInterrupted", needs: []string{Tails, Leases, settableClock}, check: heldAreNotInterrupted},
	}
}

func tailIsDurable(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	sealed := create(t, open[0], withMessage(t, newSession(t, "running"), "hello"))
	s := sealed
	for _, text := range []string{"a", "b", "c"} {
		s = mustAppend(t, open[0], withMessage(t, withNote(t, s, text), text))
		if s.Version() != 1 || !s.HasTail() || session.Base(s) != s.Seq() || len(session.Unsaved(s)) != 0 {
			t.Fatalf("flushed: version %d, tail %t, base %d of %d, %d pending", s.Version(), s.HasTail(), session.Base(s), s.Seq(), len(session.Unsaved(s)))
		}
		wantSame(t, loadTail(t, open[1], ref("running")), s)
		wantSame(t, load(t, open[1], ref("running")), sealed)
		sameInfo(t, info(t, open[1], ref("running")), sealed.Info())
	}
	wantSame(t, mustAppend(t, open[1], s), s) // nothing pending changes nothing
}

func tailSurvivesReopening(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "crashed"))
	s = mustAppend(t, st, withMessage(t, s, "before the crash"))
	if err := st.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	st = d.Open(t)
	wantSame(t, loadTail(t, st, ref("crashed")), s)
	s = mustAppend(t, st, withMessage(t, loadTail(t, st, ref("crashed")), "after it"))
	saved := save(t, st, s)
	if saved.Version() != 2 || saved.Len() != 2 {
		t.Errorf("version %d with %d messages, want 2 with 2", saved.Version(), saved.Len())
	}
	wantSame(t, load(t, d.Open(t), ref("crashed")), saved)
}

func tailMustBeSeen(t testing.TB, d Data) {
	st := d.Open(t)
	sealed := create(t, st, newSession(t, "unseen"))
	first := mustAppend(t, st, withNote(t, sealed, "one"))
	second := mustAppend(t, st, withNote(t, first, "two"))
	for _, blind := range []session.Session{sealed, first, load(t, st, ref("unseen"))} {
		_, err := st.Save(t.Context(), blind, commit(blind, "test"))
		wantConflict(t, "save that has not seen the tail", err, session.ReasonOpenTail)
		_, err = ability[store.Tails](t, st).Append(t.Context(), withNote(t, blind, "x"), store.Append{})
		wantConflict(t, "append that has not seen the tail", err, session.ReasonOpenTail)
	}
	wantSame(t, loadTail(t, st, ref("unseen")), second)
	save(t, st, loadTail(t, st, ref("unseen")))
}

func tailIsSealed(t testing.TB, d Data) {
	st := d.Open(t)
	s := mustAppend(t, st, withMessage(t, create(t, st, newSession(t, "sealing")), "in the tail"))
	saved := save(t, st, withMessage(t, s, "with the save"))
	if saved.Version() != 2 || saved.HasTail() || saved.Info().Seq != saved.Seq() || saved.Info().MessageCount != 2 {
		t.Errorf("sealed: version %d, tail %t, seq %d of %d, %d messages",
			saved.Version(), saved.HasTail(), saved.Info().Seq, saved.Seq(), saved.Info().MessageCount)
	}
	wantSame(t, load(t, st, ref("sealing")), saved)
	wantSame(t, loadTail(t, st, ref("sealing")), saved)
	sameInfo(t, info(t, st, ref("sealing")), saved.Info())
}

// discard appends the refusal of a range and returns the session after it.
func discard(t testing.TB, st store.Store, loaded session.Session, from, to int64) session.Session {
	t.Helper()
	refused, err := session.DiscardTail(loaded, from, to, start().Add(time.Hour))
	if err != nil {
		t.Fatalf("discard: %v", err)
	}
	return mustAppend(t, st, refused)
}

func discardedTail(t testing.TB, d Data) {
	st := d.Open(t)
	before := create(t, st, withMessage(t, newSession(t, "refused"), "hello"))
	begun := withChanges(t, withNote(t, before, "refused"), session.ExecutionStarted{ExecutionID: "refused"})
	worked := mustAppend(t, st, withMessage(t, begun, "refused"))
	after := discard(t, st, before, before.Seq()+1, worked.Seq())
	if after.HasTail() || after.Running() || after.Len() != 1 || after.Metadata()["note"] != nil {
		t.Fatalf("the refused changes are in force: tail %t, %d messages", after.HasTail(), after.Len())
	}
	wantSame(t, load(t, st, ref("refused")), before)
	wantSame(t, loadTail(t, st, ref("refused")), after)
	if refs := listInterrupted(t, st); len(refs) != 0 {
		t.Errorf("interrupted after its tail was discarded: %v", refs)
	}
	saved := save(t, st, withMessage(t, loadTail(t, st, ref("refused")), "accepted"))
	if saved.Len() != 2 || saved.Message(1).Content.Text() != "accepted" {
		t.Errorf("%d messages after the refusal, want hello and accepted", saved.Len())
	}
	wantSame(t, load(t, st, ref("refused")), saved)
	wantSame(t, save(t, st, load(t, st, ref("refused"))), load(t, st, ref("refused")))
}

func partlyDiscardedTail(t testing.TB, d Data) {
	st := d.Open(t)
	sealed := create(t, st, newSession(t, "partly"))
	kept := mustAppend(t, st, withMessage(t, sealed, "kept"))
	refused := mustAppend(t, st, withMessage(t, kept, "refused"))
	after := discard(t, st, kept, kept.Seq()+1, refused.Seq())
	if !after.HasTail() || after.Len() != 1 {
		t.Fatalf("tail %t with %d messages, want the kept one", after.HasTail(), after.Len())
	}
	wantSame(t, loadTail(t, st, ref("partly")), after)
	if refs := listInterrupted(t, st); !slices.Contains(refs, ref("partly")) {
		t.Errorf("not interrupted although a part of its tail is in force: %v", refs)
	}
	saved := save(t, st, loadTail(t, st, ref("partly")))
	wantSame(t, load(t, st, ref("partly")), saved)
	if saved.Len() != 1 || saved.Message(0).Content.Text() != "kept" {
		t.Errorf("%d messages sealed, want the kept one", saved.Len())
	}
}

func tailShowsRows(t testing.TB, d Data) {
	st := d.Open(t)
	row := func(status string) session.TaskRowChanged {
		return session.TaskRowChanged{Task: session.TaskRow{Title: "work", Status: status}}
	}
	s := create(t, st, withChanges(t, newSessionFrom(t, session.Identity{ID: "job", Kind: session.KindTask}), row("pending")))
	worked := mustAppend(t, st, withChanges(t, s, row("running"), session.NameChanged{Name: "unsealed"}))
	want := s.Info()
	want.Task = &session.TaskRow{Title: "work", Status: "running"}
	sameInfo(t, info(t, st, ref("job")), want)
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{TaskStatuses: []string{"running"}})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("listing running tasks: %d, %v", len(page.Items), err)
	}
	discard(t, st, s, s.Seq()+1, worked.Seq())
	sameInfo(t, info(t, st, ref("job")), s.Info())
	sealed := save(t, st, withChanges(t, loadTail(t, st, ref("job")), row("done")))
	sameInfo(t, info(t, st, ref("job")), sealed.Info())

	flow := create(t, st, newSessionFrom(t, session.Identity{ID: "flow", Kind: session.KindWorkflow}))
	mustAppend(t, st, withChanges(t, flow, session.WorkflowRowChanged{Workflow: session.WorkflowRow{Name: "w", Status: "running"}}))
	if i := info(t, st, ref("flow")); i.Workflow == nil || i.Workflow.Status != "running" {
		t.Errorf("the header's workflow is %+v, want the one of the tail", i.Workflow)
	}
}

func tailRefusesRewinds(t testing.TB, d Data) {
	st := d.Open(t)
	first := create(t, st, newSession(t, "rewinding"))
	second := save(t, st, withMessage(t, first, "hello"))
	rewound, err := second.Rewound(first, start().Add(time.Hour))
	if err != nil {
		t.Fatalf("rewind: %v", err)
	}
	_, err = ability[store.Tails](t, st).Append(t.Context(), rewound, store.Append{})
	wantErr(t, "append of a rewind", err, session.ErrInvalid)
	wantSame(t, loadTail(t, st, ref("rewinding")), second)
}

func listInterrupted(t testing.TB, st store.Store) []store.Ref {
	t.Helper()
	refs, err := ability[store.Tails](t, st).Interrupted(t.Context(), session.DefaultTenant)
	if err != nil {
		t.Fatalf("interrupted: %v", err)
	}
	return refs
}

func interruptedAreFound(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "idle"))
	mustAppend(t, st, withNote(t, create(t, st, newSession(t, "open")), "x"))
	begun := session.ExecutionStarted{ExecutionID: "e1"}
	running := save(t, st, withChanges(t, create(t, st, newSession(t, "running")), begun))
	finishing := save(t, st, withChanges(t, create(t, st, newSession(t, "finishing")), begun))
	mustAppend(t, st, withChanges(t, finishing, session.ExecutionFinished{Status: session.ExecutionCompleted}))
	create(t, st, withChanges(t, newSessionFrom(t, session.Identity{ID: "elsewhere", Tenant: "other"}), begun))
	want := []store.Ref{ref("finishing"), ref("open"), ref("running")}
	have := listInterrupted(t, st)
	slices.SortFunc(have, func(a, b store.Ref) int { return strings.Compare(a.ID, b.ID) })
	if !slices.Equal(have, want) {
		t.Errorf("interrupted: %v, want %v", have, want)
	}
	save(t, st, withChanges(t, running, session.ExecutionFinished{Status: session.ExecutionCompleted}))
	save(t, st, loadTail(t, st, ref("finishing")))
	save(t, st, loadTail(t, st, ref("open")))
	if have := listInterrupted(t, st); len(have) != 0 {
		t.Errorf("interrupted when all is sealed and finished: %v", have)
	}
}

func heldAreNotInterrupted(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "worked-on"))
	l, err := ability[store.Leases](t, st).Acquire(t.Context(), ref("worked-on"), "me", time.Minute)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	if _, err := ability[store.Tails](t, st).Append(t.Context(), withNote(t, s, "x"), store.Append{Fence: l.Token}); err != nil {
		t.Fatalf("append by the holder: %v", err)
	}
	if have := listInterrupted(t, st); len(have) != 0 {
		t.Errorf("interrupted while it is held: %v", have)
	}
	d.Clock.Advance(time.Hour)
	if have := listInterrupted(t, st); !slices.Equal(have, []store.Ref{ref("worked-on")}) {
		t.Errorf("interrupted after the lease ran out: %v", have)
	}
}
